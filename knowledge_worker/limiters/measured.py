"""Any rate limiter, with each pause that this process makes told to an observer."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_worker.ports import Observer, RateLimiter, Reservation


class MeasuredRateLimiter:
    """A :class:`~knowledge_worker.ports.RateLimiter` around another one, which it is in all other respects."""

    def __init__(self, limiter: RateLimiter, observer: Observer) -> None:
        self._limiter = limiter
        self._observer = observer

    def reserve(
        self, provider: str, *, costs_us: Sequence[int], patience_ms: int, probe_ms: int, despite_pause: bool = False
    ) -> Reservation:
        """Reserve with the limiter."""
        return self._limiter.reserve(
            provider, costs_us=costs_us, patience_ms=patience_ms, probe_ms=probe_ms, despite_pause=despite_pause
        )

    def pause(self, provider: str, *, ms: int) -> None:
        """Pause the provider for everybody, and tell."""
        self._limiter.pause(provider, ms=ms)
        self._observer.provider_paused(provider)

    def resume(self, provider: str) -> None:
        """End a pause with the limiter."""
        self._limiter.resume(provider)
