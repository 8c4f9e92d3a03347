"""What tasks call, and what each does around its one call: bind the log, turn an outcome into what Flower shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from knowledge_worker.errors import KnowledgeError, LeaseLostError, PassCancelledError
from knowledge_worker.ports import Observer, Operation

if TYPE_CHECKING:
    from celery.app.task import Context

log = structlog.get_logger()

FAILED: Final = "failed"


class Work(Protocol):
    """The worker side of :class:`knowledge_worker.knowledge.Knowledge`; each answers its outcome in a few words."""

    @property
    def observer(self) -> Observer:
        """Told of each task."""
        ...

    def run_pass(self, name: str) -> str:
        """Run the pass of a collection, if one is due."""
        ...

    def run_embed(self, name: str) -> str:
        """Help to embed what is pending in a collection."""
        ...

    def run_tick(self) -> str | None:
        """Nudge what is due."""
        ...


class PassFailed(Exception):
    """Work that failed in an expected way; its message is one line. Celery logs it without a traceback."""


def run_bound(
    work: Callable[[], str | None], *, observer: Observer, task: str, request: Context, collection: str | None = None
) -> str:
    """Run ``work`` with task and collection on every log line, as a part of what asked for it.

    Returns:
        Its outcome in a few words, which monitors show as the task's result.

    Raises:
        PassFailed: it failed; the task's state tells.
    """
    facts = {"task": task} | ({} if collection is None else {"collection": collection})
    carrier = request.headers or {}
    with (
        structlog.contextvars.bound_contextvars(task_id=request.id, **facts),
        observer.during(Operation.TASK, carrier=carrier, **facts) as seen,
    ):
        try:
            outcome = work() or "ok"
        except (LeaseLostError, PassCancelledError) as error:
            # Another worker goes on, or will: nothing failed.
            log.info("task_left", reason=error.code)
            seen.note(outcome="left")
            return error.code.replace("_", " ")
        except KnowledgeError as error:
            log.warning("task_failed", code=error.code, error=error.message)
            raise PassFailed(error.message) from None
        if outcome.startswith(FAILED):
            raise PassFailed(outcome.removeprefix(FAILED).lstrip(": ") or FAILED)
        seen.note(outcome="ok")
        return outcome
