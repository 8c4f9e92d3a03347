"""Leases within one process, for tests and for a :class:`Knowledge` without Redis."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from knowledge_worker.ports import LockState


class MemoryLocks:
    """:class:`~knowledge_worker.ports.Locks` in a dictionary.

    Args:
        now_ms: a clock in milliseconds that never goes back; a test passes its own.
    """

    def __init__(self, now_ms: Callable[[], float] | None = None) -> None:
        self._now_ms = now_ms or (lambda: time.monotonic() * 1000)
        self._held: dict[str, tuple[str, float]] = {}
        self._mutex = threading.Lock()

    def acquire(self, key: str, token: str, *, lifetime_ms: int) -> LockState:
        """Take ``key`` if nobody holds it, or if ``token`` holds it already."""
        with self._mutex:
            holder = self._holder(key)
            if holder is not None and holder != token:
                return LockState.TAKEN
            self._held[key] = (token, self._now_ms() + lifetime_ms)
            return LockState.OURS

    def renew(self, key: str, token: str, *, lifetime_ms: int) -> LockState:
        """Prolong it; a key that vanished is set again."""
        return self.acquire(key, token, lifetime_ms=lifetime_ms)

    def release(self, key: str, token: str) -> None:
        """Remove it if ``token`` holds it."""
        with self._mutex:
            if self._holder(key) == token:
                del self._held[key]

    def forget(self) -> None:
        """Lose every key, as a restart or FLUSHALL of Redis does."""
        with self._mutex:
            self._held.clear()

    def close(self) -> None:
        """Nothing is open."""

    def _holder(self, key: str) -> str | None:
        token, until_ms = self._held.get(key, (None, 0.0))
        return token if self._now_ms() < until_ms else None
