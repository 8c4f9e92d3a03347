"""When something is asked: a name, an interval, a task. There is one entry, and it decides nothing (docs/decisions)."""

from __future__ import annotations

from typing import Any

TICK_EXPIRES_S = 60
"""A tick older than this is dropped unread. Not the interval: two machines' clocks may differ by more than that."""


def beat_schedule(*, tick_ms: int) -> dict[str, dict[str, Any]]:
    """The schedule for Celery beat.

    Args:
        tick_ms: how often workers are asked to look for what is due, in milliseconds.
    """
    return {
        "tick": {
            "task": "knowledge.tick",
            "schedule": tick_ms / 1000,
            "options": {"queue": "control", "expires": max(TICK_EXPIRES_S, 2 * tick_ms / 1000)},
        }
    }
