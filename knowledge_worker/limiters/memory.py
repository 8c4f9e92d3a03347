"""Provider limits within one process: for tests, and for a while without Redis."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from knowledge_worker.ports import Reservation


@dataclass(slots=True)
class _State:
    free_at_us: dict[int, int] = field(default_factory=dict)
    paused_until_us: int | None = None


class MemoryRateLimiter:
    """:class:`~knowledge_worker.ports.RateLimiter` in a dictionary.

    Args:
        now_ms: a clock in milliseconds; a test passes its own.
    """

    def __init__(self, now_ms: Callable[[], float] | None = None) -> None:
        self._now_ms = now_ms or (lambda: time.time() * 1000)
        self._states: dict[str, _State] = {}
        self._mutex = threading.Lock()

    def reserve(
        self, provider: str, *, costs_us: Sequence[int], patience_ms: int, probe_ms: int, despite_pause: bool = False
    ) -> Reservation:
        """Take the next free time, unless it is too far off."""
        now = round(self._now_ms() * 1000)
        with self._mutex:
            state = self._states.setdefault(provider, _State())
            paused_until = state.paused_until_us
            if paused_until is not None and paused_until > now and not despite_pause:
                return Reservation(granted=False, wait_ms=_ms(paused_until - now), paused=True)
            limited = {place: cost for place, cost in enumerate(costs_us) if cost}
            start = max([now, *(state.free_at_us.get(place, 0) for place in limited)])
            if start - now > patience_ms * 1000:
                return Reservation(granted=False, wait_ms=_ms(start - now))
            state.free_at_us |= {place: start + cost for place, cost in limited.items()}
            if paused_until is not None:
                state.paused_until_us = max(paused_until, start + probe_ms * 1000)
            return Reservation(granted=True, wait_ms=_ms(start - now), probing=paused_until is not None)

    def pause(self, provider: str, *, ms: int) -> None:
        """No call before ``ms`` have passed, and then one alone."""
        until = round((self._now_ms() + ms) * 1000)
        with self._mutex:
            state = self._states.setdefault(provider, _State())
            state.paused_until_us = max(state.paused_until_us or 0, until)

    def resume(self, provider: str) -> None:
        """End a pause."""
        with self._mutex:
            if provider in self._states:
                self._states[provider].paused_until_us = None

    def close(self) -> None:
        """Nothing is open."""


def _ms(us: int) -> int:
    return -(-us // 1000)
