"""``knowledge.embed``: help to embed what is pending in the collection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_worker.queue.celery import EMBED_TASK
from knowledge_worker.tasks.work import PassFailed, Work, run_bound

if TYPE_CHECKING:
    from celery import Celery, Task


def register_embed(celery: Celery, knowledge: Work) -> None:
    """Register the task."""

    @celery.task(name=EMBED_TASK, bind=True, ignore_result=True, shared=False, throws=(PassFailed,))
    def embed(self: Task[..., str], collection: str) -> str:  # pyright: ignore[reportUnusedFunction]
        """Claim and embed until nothing is pending; a second delivery finds nothing left to do."""
        return run_bound(
            lambda: knowledge.run_embed(collection),
            observer=knowledge.observer,
            task=EMBED_TASK,
            request=self.request,
            collection=collection,
        )
