"""What the tools ask: a Knowledge in this process, or a client of one elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any, Final, Protocol, cast, runtime_checkable

from knowledge_worker.domain.collection import CollectionStatus
from knowledge_worker.errors import CollectionNotFoundError

_OWN: Final = ("collections", "top_k")
"""Arguments of a search that the tools decide themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionFacts:
    """What the tools need to know of a collection before they answer from it.

    Attributes:
        trusted: as a search would say of its matches.
        status: as its view says.
    """

    name: str
    title: str | None
    description: str | None
    trusted: bool
    status: str

    @property
    def is_orphaned(self) -> bool:
        return self.status == CollectionStatus.ORPHANED

    @property
    def is_ready(self) -> bool:
        return self.status != CollectionStatus.PENDING


class Searches(Protocol):
    """What a Knowledge and its client have in common."""

    def search(self, query: str, *, collections: Iterable[str], top_k: int, min_score: float | None) -> Any:
        """Find passages; answers a ``SearchResult``."""
        ...

    def collection(self, name: str) -> Any:
        """One collection: ``name``, ``title``, ``description``, ``trusted``, ``status``."""
        ...


@runtime_checkable
class _LooksUp(Protocol):
    """A Knowledge: it knows what its code declares, and looks without counting documents."""

    def look_up(self, names: Iterable[str]) -> Mapping[str, Any]: ...

    def get_document(self, collection: str, id: str) -> Any: ...  # noqa: A002 - what Knowledge calls it


@runtime_checkable
class _Client(Protocol):
    def document(self, name: str, document_id: str) -> Any: ...


class Backend:
    """One way to ask either.

    Args:
        knowledge: a :class:`knowledge_worker.Knowledge`, a ``KnowledgeClient``, or anything with the same methods.
    """

    def __init__(self, knowledge: Searches) -> None:
        self._knowledge = knowledge

    def look_up(self, names: Iterable[str]) -> dict[str, CollectionFacts]:
        """What is known of collections; those that nobody knows are left out."""
        if isinstance(self._knowledge, _LooksUp):
            return {name: _facts(one) for name, one in self._knowledge.look_up(names).items()}
        found: dict[str, CollectionFacts] = {}
        for name in names:
            try:
                found[name] = _facts(self._knowledge.collection(name))
            except CollectionNotFoundError:
                continue
        return found

    def search(
        self, query: str, *, collections: tuple[str, ...], top_k: int, min_score: float | None, **more: Any
    ) -> Any:
        """See :meth:`knowledge_worker.Knowledge.search`."""
        options: dict[str, Any] = {"collections": collections, "top_k": top_k, "min_score": min_score, **more}
        return self._knowledge.search(query, **options)

    @property
    def search_options(self) -> tuple[str, ...] | None:
        """The names of further arguments that a search takes; None where it takes any."""
        parameters = signature(self._knowledge.search).parameters.values()
        if any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
            return None
        return tuple(one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY and one.name not in _OWN)

    def document(self, collection: str, document: str) -> Any:
        """A document with its content.

        Raises:
            CollectionNotFoundError, DocumentNotFoundError: it is not there.
        """
        if isinstance(self._knowledge, _LooksUp):
            return self._knowledge.get_document(collection, document)
        return cast("_Client", self._knowledge).document(collection, document)

    def view(self, name: str) -> dict[str, Any]:
        """A collection for people and models: what it is, and how it is doing.

        Raises:
            CollectionNotFoundError: it is not there.
        """
        one = self._knowledge.collection(name)
        facts = {"name": one.name, "title": one.title, "description": one.description, "status": str(one.status)}
        shown: dict[str, Any] = {key: value for key, value in facts.items() if value is not None}
        counts = one.documents
        shown["documents"] = {"ready": counts.ready, "pending": counts.pending, "failed": counts.failed}
        if one.synced_at is not None:
            shown["syncedAt"] = one.synced_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
        return shown

    @property
    def declared(self) -> dict[str, CollectionFacts]:
        """What this process's code declares; only that is written by the application's owners for certain."""
        return {
            one.name: CollectionFacts(
                name=one.name, title=one.title, description=one.description, trusted=one.trusted, status=""
            )
            for one in getattr(self._knowledge, "declared", ())
        }


def is_backend(value: object) -> bool:
    """Whether the tools can work over ``value``."""
    search = getattr(value, "search", None)
    return callable(search) and not iscoroutinefunction(search) and isinstance(value, _LooksUp | _Client)


def _facts(collection: Any) -> CollectionFacts:
    return CollectionFacts(
        name=collection.name,
        title=collection.title,
        description=collection.description,
        trusted=collection.trusted is True,
        status=str(collection.status),
    )
