"""Celery entry points: they translate and leave. The names are in :mod:`knowledge_worker.queue.celery`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_worker.tasks.embed import register_embed
from knowledge_worker.tasks.sync import register_sync
from knowledge_worker.tasks.tick import register_tick

if TYPE_CHECKING:
    from celery import Celery

    from knowledge_worker.tasks.work import Work

__all__ = ["register_tasks"]


def register_tasks(celery: Celery, knowledge: Work) -> None:
    """Let a worker of ``celery`` do the work of ``knowledge``.

    The tasks are ``shared=False``: they belong to this application and no other one of the process.
    """
    register_sync(celery, knowledge)
    register_embed(celery, knowledge)
    register_tick(celery, knowledge)
