"""What takes more than one request: repeating, turning pages, sending many documents.

A flow is a generator that yields what is to be done next and is sent what came of it. It neither blocks nor awaits, so
the two clients, which only carry out steps, share all of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from knowledge_worker.client import operations
from knowledge_worker.client.batch import BATCH_BYTES, BATCH_DOCUMENTS, Sending, sending, settle
from knowledge_worker.client.exchange import BUSY, OK, Lost, Operation, Outcome, Repeat, Reply, Request, Result
from knowledge_worker.client.problems import problem, unreadable
from knowledge_worker.client.retry_after import retry_after_s
from knowledge_worker.domain.limits import LIST_MAX
from knowledge_worker.errors import KnowledgeError

FIRST_WAIT_S: Final = 0.2
LONGEST_WAIT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; the step is answered with an :data:`Outcome`."""

    request: Request


@dataclass(frozen=True, slots=True)
class Sleep:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Pull:
    """Take the next of the caller's documents; answered with it, or with :data:`END`."""


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand something to the caller."""

    value: Any


Step: TypeAlias = Send | Sleep | Pull | Emit
Flow: TypeAlias = Generator[Step, Any, Result]
Item = TypeVar("Item")

END: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long failures are put up with.

    Attributes:
        address: of the service, for messages.
        retry_for_s: no try begins later than this after the first one; 0 means one try.
        now: seconds of a clock that never goes back.
        jitter: a factor of each wait, so that many clients do not come back at once.
    """

    address: str
    retry_for_s: float
    now: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = field(default=lambda: random.uniform(0.5, 1))  # noqa: S311 - no secret


class Tries:
    """The tries of one request."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._began = patience.now()
        self._failed = 0

    def wait_s(self, outcome: Outcome) -> float | None:
        """How long to wait before the next try; None when there is none left."""
        wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**self._failed) * self._patience.jitter()
        self._failed = min(self._failed + 1, 30)
        if isinstance(outcome, Reply):
            wait = max(wait, retry_after_s(outcome.headers) or 0.0)
        spent = self._patience.now() - self._began
        return wait if spent + wait <= self._patience.retry_for_s else None


def perform(operation: Operation[Result], patience: Patience) -> Flow[Result]:
    """Carry out an operation, again where that is safe and may help.

    Raises:
        KnowledgeError: what the service answered, or that it does not answer.
    """
    tries = Tries(patience)
    unclear = False
    while True:
        outcome = _whole((yield Send(operation.request)))
        if isinstance(outcome, Reply) and outcome.status in operation.expected:
            return _parsed(operation, outcome, patience)
        error = problem(outcome, collection=operation.collection, address=patience.address)
        if unclear and operation.gone == error.code:
            # The try whose answer was lost has done it, or somebody else has: it is gone either way.
            return operation.parse(Reply(status=204, headers={}, body=b""))
        wait = tries.wait_s(outcome) if _repeatable(operation, outcome) else None
        if wait is None:
            raise error from (outcome.error if isinstance(outcome, Lost) else None)
        unclear = unclear or not isinstance(outcome, Lost) or outcome.sent
        yield Sleep(wait)


def documents(name: str, *, status: str | None, patience: Patience) -> Flow[None]:
    """Emit the documents of all pages."""
    offset = 0
    while True:
        page = yield from perform(operations.page(name, limit=LIST_MAX, offset=offset, status=status), patience)
        for document in page.documents:
            yield Emit(document)
        offset += len(page.documents)
        if not page.documents or offset >= page.total:
            return


def put_many(name: str, *, patience: Patience) -> Flow[None]:
    """Pull documents, send them in batches, emit a result for each in their order."""
    position = 0
    batch: list[Sending] = []
    size = 0
    while True:
        document = yield Pull()
        if document is not END:
            one = sending(document, position)
            position += 1
            batch.append(one)
            size += len(one.line)
        if batch and (document is END or len(batch) >= BATCH_DOCUMENTS or size >= BATCH_BYTES):
            yield from _put_batch(name, batch, patience)
            batch, size = [], 0
        if document is END:
            return


def _put_batch(name: str, batch: list[Sending], patience: Patience) -> Flow[None]:
    failure: KnowledgeError | None = None
    try:
        yield from _settle_all(name, batch, patience)
    except KnowledgeError as error:
        failure = error
    for one in batch:
        if one.result is not None:
            yield Emit(one.result)
    if failure is not None:
        raise failure


def _settle_all(name: str, batch: list[Sending], patience: Patience) -> Flow[None]:
    """Send documents until each has a result that stands.

    Each line is a PUT without a condition, so a document may be sent again, and is, but only while it has no result:
    when the connection was lost, when the whole request was answered with a busy status, when the answer broke off
    before its line, or when its line says that the service cannot just now.
    """
    tries = Tries(patience)
    while left := [one for one in batch if not one.final]:
        outcome = yield Send(operations.batch(name, b"".join(one.line for one in left)))
        error: KnowledgeError | None = None
        if isinstance(outcome, Reply) and outcome.status in OK:
            settle(left, outcome, collection=name)
            if any(one.final for one in left):
                tries = Tries(patience)
            if any(one.result is None for one in left):
                error = problem(_whole(outcome), collection=name, address=patience.address)
        else:
            error = problem(outcome, collection=name, address=patience.address)
            if not _may_pass(outcome):
                raise error
        if all(one.final for one in left):
            return
        wait = tries.wait_s(outcome)
        if wait is None:
            if error is not None:
                raise error
            return  # "cannot just now" is the result of each document that is left
        yield Sleep(wait)


def _whole(outcome: Outcome) -> Outcome:
    """An answer that broke off is none."""
    return Lost(outcome.broken) if isinstance(outcome, Reply) and outcome.broken is not None else outcome


def _may_pass(outcome: Outcome) -> bool:
    return not outcome.lasting if isinstance(outcome, Lost) else outcome.status in BUSY


def _repeatable(operation: Operation[Any], outcome: Outcome) -> bool:
    if operation.repeat is Repeat.UNSENT:
        return isinstance(outcome, Lost) and not outcome.sent and not outcome.lasting
    return _may_pass(outcome)


def _parsed(operation: Operation[Result], reply: Reply, patience: Patience) -> Result:
    try:
        return operation.parse(reply)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if reply.status not in OK:
            raise problem(reply, collection=operation.collection, address=patience.address) from None
        raise unreadable(reply, address=patience.address) from error
