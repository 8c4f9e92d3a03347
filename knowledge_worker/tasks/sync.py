"""``knowledge.sync``: look whether the collection is due, and run its pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_worker.queue.celery import SYNC_TASK
from knowledge_worker.tasks.work import PassFailed, Work, run_bound

if TYPE_CHECKING:
    from celery import Celery, Task


def register_sync(celery: Celery, knowledge: Work) -> None:
    """Register the task."""

    @celery.task(name=SYNC_TASK, bind=True, ignore_result=True, shared=False, throws=(PassFailed,))
    def sync(self: Task[..., str], collection: str) -> str:  # pyright: ignore[reportUnusedFunction]
        """Run the pass that was asked for; a second delivery finds nothing left to do."""
        return run_bound(
            lambda: knowledge.run_pass(collection),
            observer=knowledge.observer,
            task=SYNC_TASK,
            request=self.request,
            collection=collection,
        )
