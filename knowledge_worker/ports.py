"""Every promise that can be kept by another implementation.

The store's promises are in :mod:`knowledge_worker.store.protocol`; contract suites for all of them are in
:mod:`knowledge_worker.testing`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum, auto
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from knowledge_worker.domain.document import DocumentInput

Vectors = NDArray[np.float32]
Purpose = Literal["document", "query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """The answer to one :meth:`EmbeddingModel.embed`.

    Attributes:
        vectors: float32, shape ``(len(texts), dimensions)``, rows in the order of the texts, each of unit length.
        tokens: what the provider counted; 0 where it does not count.
        calls: HTTP requests that were made; 0 for a local model.
    """

    vectors: Vectors
    tokens: int = 0
    calls: int = 1


@runtime_checkable
class EmbeddingModel(Protocol):
    """Texts to vectors. An implementation is safe to use from several threads and makes no retries of its own."""

    @property
    def id(self) -> str:
        """``<provider>/<model>``; stored with every generation, so it changes when the vectors would."""
        ...

    @property
    def dimensions(self) -> int | None:
        """Of every vector, or None when only an answer tells."""
        ...

    @property
    def max_inputs(self) -> int:
        """The most texts of one :meth:`embed`."""
        ...

    def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout_ms: int) -> Embeddings:
        """Embed ``texts``.

        Args:
            texts: 1 to ``max_inputs`` strings, none of them blank.
            purpose: some models embed a query differently from a document.
            timeout_ms: the call is given up after it.

        Raises:
            EmbeddingRejectedError: the provider refuses a text (400, 413, 422); the same text fails again.
            EmbeddingUnavailableError: no answer in time, a rate limit, a 5xx, wrong or missing vectors.
        """
        ...


class ModelResolver(Protocol):
    """``"<provider>/<model id>"`` to a model."""

    def resolve(self, model: str) -> EmbeddingModel:
        """The model of that name; the same object for the same name.

        Raises:
            ConfigurationError: no such provider, no key, an extra is missing; the message says what to do.
        """
        ...


class SourceContext(Protocol):
    """What a source may tell and ask while it is read."""

    @property
    def cancelled(self) -> bool:
        """Whether the pass was asked to stop."""
        ...

    def raise_if_cancelled(self) -> None:
        """Raise PassCancelledError when the pass was asked to stop."""
        ...

    def on_error(self, error: BaseException | str) -> None:
        """Report something that was skipped; the pass goes on. Counted and shown with the pass."""
        ...

    def incomplete(self, reason: str) -> None:
        """Say that a transient failure kept documents out of this read: nothing is deleted by this pass."""
        ...


Item = DocumentInput | dict[str, object]
Items = Iterable[Item] | AsyncIterable[Item]


@runtime_checkable
class KnowledgeSource(Protocol):
    """Yields the whole set of its documents on every read."""

    @property
    def kind(self) -> str:
        """A word for people and logs, such as ``folder``."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether only the application's owners can write what it yields."""
        ...

    @property
    def fingerprint(self) -> str:
        """Text that differs when the declaration differs; equal in every process that runs the same code."""
        ...

    def check(self) -> None:
        """Check the configuration without reading documents.

        Raises:
            ConfigurationError: it can never work as it is declared.
        """
        ...

    def documents(self, context: SourceContext) -> Iterable[object]:
        """Yield every document once, as ``DocumentInput`` or a mapping of its fields, without holding them all."""
        ...


class LockState(Enum):
    """What became of a try for a lock."""

    OURS = auto()
    TAKEN = auto()
    UNREACHABLE = auto()


class Locks(Protocol):
    """Try-locks with a lifetime; they save work, the fence in PostgreSQL keeps it right."""

    def acquire(self, key: str, token: str, *, lifetime_ms: int) -> LockState:
        """Take ``key`` if nobody holds it, or if ``token`` holds it already; never waits."""
        ...

    def renew(self, key: str, token: str, *, lifetime_ms: int) -> LockState:
        """Prolong it; a key that vanished is set again, another token's is left alone (TAKEN)."""
        ...

    def release(self, key: str, token: str) -> None:
        """Remove it if ``token`` holds it; never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What a :class:`RateLimiter` says to somebody who wants to call a provider.

    Attributes:
        granted: the call is reserved, ``wait_ms`` from now; else nothing is, and that is when it might be.
        paused: not granted because of a pause.
        probing: granted after a pause, to one caller alone; the others follow once it was answered.
    """

    granted: bool
    wait_ms: int
    paused: bool = False
    probing: bool = False


class RateLimiter(Protocol):
    """When a provider may be called next, for everybody who shares it; never raises."""

    def reserve(
        self, provider: str, *, costs_us: Sequence[int], patience_ms: int, probe_ms: int, despite_pause: bool = False
    ) -> Reservation:
        """Reserve the next free time for a call, unless the provider is paused or that is too far off.

        Args:
            costs_us: for each limit, in the same order each time: microseconds that this call keeps others away; 0
                where there is no limit.
            patience_ms: the longest wait that is worth a reservation.
            probe_ms: after a pause, how long others wait for the first call's answer.
            despite_pause: reserve it although the provider is paused.
        """
        ...

    def pause(self, provider: str, *, ms: int) -> None:
        """No call before ``ms`` have passed, and then one alone; a longer pause stays."""
        ...

    def resume(self, provider: str) -> None:
        """A call was answered: end the pause."""
        ...


class WorkQueue(Protocol):
    """Wakes workers. A nudge may be lost and may come twice; it never raises."""

    def nudge_sync(self, collection: str) -> bool:
        """Ask some worker to look at the collection; False when the nudge could not be sent."""
        ...

    def nudge_embed(self, collection: str, *, helpers: int) -> bool:
        """Ask up to ``helpers`` workers to embed what is pending; False when that could not be sent."""
        ...


Clock = Callable[[], datetime]
"""Aware, UTC. Without one the database's clock counts, so that replicas agree."""


Fact = str | int | float | bool
"""What an :class:`Observer` is told of an operation: ids, names and numbers, never content."""


class Operation(StrEnum):
    """What is worth measuring, with the facts each one has.

    Attributes:
        REQUEST: an HTTP request: ``method``, ``route``, ``status``.
        TASK: a Celery task: ``task``, ``collection``, ``outcome``.
        PASS: a pass under its lease: ``collection``, ``trigger``, ``outcome`` and its counts.
        HELP: embedding for the pass of another worker: ``collection``.
        READ, EMBED, STORE: the steps of a pass: ``collection``.
        CALL: one call of an embedding model: ``provider``, ``model``, ``purpose``, ``outcome``, ``calls``, ``texts``,
            ``tokens``.
        SEARCH: a search: ``mode``, ``outcome``.
    """

    REQUEST = auto()
    TASK = auto()
    PASS = auto()
    HELP = auto()
    READ = auto()
    EMBED = auto()
    STORE = auto()
    CALL = auto()
    SEARCH = auto()


class Observation(Protocol):
    """An operation that is under way."""

    def note(self, **facts: Fact) -> None:
        """Tell what was found out meanwhile; a later value replaces an earlier one."""
        ...


class Observer(Protocol):
    """Told what this process does, for metrics and traces; never raises by itself."""

    def during(
        self, operation: Operation, *, carrier: Mapping[str, str] | None = None, **facts: Fact
    ) -> AbstractContextManager[Observation]:
        """Watch an operation from beginning to end; an exception that leaves it ends it.

        Args:
            carrier: what :meth:`carrier` gave where the operation was asked for, as another process sent it.
        """
        ...

    def leases_expired(self, count: int) -> None:
        """Leases whose holder stopped answering were found."""
        ...

    def provider_paused(self, provider: str) -> None:
        """A provider asked for a pause, which all workers and searches make."""
        ...

    def carrier(self) -> dict[str, str]:
        """What goes along with a message so that the operations it causes are seen as a part of this one."""
        ...
