"""``knowledge.tick``: the only periodic task; ask what is due and nudge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_worker.queue.celery import TICK_TASK
from knowledge_worker.tasks.work import PassFailed, Work, run_bound

if TYPE_CHECKING:
    from celery import Celery, Task


def register_tick(celery: Celery, knowledge: Work) -> None:
    """Register the task."""

    @celery.task(name=TICK_TASK, bind=True, ignore_result=True, shared=False, throws=(PassFailed,))
    def tick(self: Task[..., str]) -> str:  # pyright: ignore[reportUnusedFunction]
        """Nudge what is due; ten ticks at once do no more than one."""
        return run_bound(knowledge.run_tick, observer=knowledge.observer, task=TICK_TASK, request=self.request)
