"""Who may call an embedding provider now: its limits and its pauses, whoever works for whichever collection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge_worker.domain.collection import NO_MODEL
from knowledge_worker.embedding.tokens import estimated_tokens
from knowledge_worker.errors import EmbeddingError, EmbeddingUnavailableError, ProviderBusyError
from knowledge_worker.ports import EmbeddingModel, RateLimiter

MINUTE_US: Final = 60_000_000
HOLDER_PATIENCE_MS: Final = 60_000
"""So long a pass waits for its turn before it leaves the worker to others and comes back on the backoff."""
HELPER_PATIENCE_MS: Final = 500
"""Where more than this is left to wait, the provider has enough callers."""
QUERY_PATIENCE_MS: Final = 2_000
"""Of somebody who waits for an answer."""
LOOKS_AGAIN_S: Final = 0.2
"""How often somebody who waits looks whether the wait is over, or the work is to stop."""

IN_PROCESS: Final = frozenset({"local", "fastembed", NO_MODEL})
"""Models that ask nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLimits:
    """What a provider allows, for all workers and searches together; None is no limit.

    Attributes:
        tokens_per_minute: counted by ``embedding/tokens.py``, on the high side.
        tokens_per_call: the most tokens of one request.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_call: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A call that may be made now.

    Attributes:
        probing: the first one after a pause; others wait for what becomes of it.
        waited_s: seconds.
    """

    provider: str
    probing: bool = False
    waited_s: float = 0.0


class ProviderGate:
    """Asked before and told after each call of a provider.

    Args:
        limits: by provider; one without an entry has none, and its pauses are kept all the same.
        pause_ms: after a 429 that does not say how long; the first call after a pause is waited for as long.
    """

    def __init__(self, limiter: RateLimiter, limits: Mapping[str, ProviderLimits], *, pause_ms: int) -> None:
        self._limiter = limiter
        self._limits = limits
        self._pause_ms = pause_ms

    def fitting(self, model: EmbeddingModel, texts: Sequence[str]) -> int:
        """How many of the first ``texts`` one call may carry; at least one."""
        limits = self._limits.get(_provider(model))
        bounds = () if limits is None else (limits.tokens_per_minute, limits.tokens_per_call)
        most = min((bound for bound in bounds if bound is not None), default=None)
        if most is None:
            return len(texts)
        tokens = 0
        for count, text in enumerate(texts):
            tokens += estimated_tokens(text)
            if tokens > most and count:
                return count
        return len(texts)

    def enter(
        self,
        model: EmbeddingModel,
        texts: Sequence[str],
        *,
        patience_ms: int,
        wait: Callable[[float], None] = time.sleep,
        despite_pause: bool = False,
    ) -> Turn:
        """Wait for the turn to make a call.

        Args:
            patience_ms: the longest wait that is worth it.
            wait: sleeps for some seconds, at most; may raise to end the waiting.
            despite_pause: of an attempt that somebody asked for explicitly.

        Raises:
            ProviderBusyError: it is not worth it; ``retry_after_ms`` is when to come back.
        """
        provider = _provider(model)
        if provider in IN_PROCESS:
            return Turn(provider=provider)
        costs_us = _costs_us(self._limits.get(provider, ProviderLimits()), texts)
        began = time.monotonic()
        while True:
            left_ms = max(0, patience_ms - round(1000 * (time.monotonic() - began)))
            answer = self._limiter.reserve(
                provider,
                costs_us=costs_us,
                patience_ms=left_ms,
                probe_ms=self._pause_ms,
                despite_pause=despite_pause,
            )
            if answer.granted:
                starts = time.monotonic() + answer.wait_ms / 1000
                while (left := starts - time.monotonic()) > 0:
                    wait(min(left, LOOKS_AGAIN_S))
                return Turn(
                    provider=provider,
                    probing=answer.probing or despite_pause,
                    waited_s=time.monotonic() - began,
                )
            if not answer.paused or answer.wait_ms > left_ms:
                why = "asked for a pause" if answer.paused else "is used as much as its limits allow"
                raise ProviderBusyError(
                    f'Embedding provider "{provider}" {why}; the next call is possible in '
                    f"{answer.wait_ms / 1000:.0f} s.",
                    retry_after_ms=answer.wait_ms,
                    calls=0,
                )
            wait(min(answer.wait_ms / 1000, LOOKS_AGAIN_S))

    def ended(self, turn: Turn, error: EmbeddingError | None) -> None:
        """What became of the call: an answer ends a pause, and where the provider asks for one, everybody makes it."""
        if turn.provider in IN_PROCESS:
            return
        if not isinstance(error, EmbeddingUnavailableError):
            if turn.probing:
                self._limiter.resume(turn.provider)
        elif error.rate_limited or error.retry_after_ms is not None:
            self._limiter.pause(turn.provider, ms=error.retry_after_ms or self._pause_ms)


def _provider(model: EmbeddingModel) -> str:
    return model.id.partition("/")[0]


def _costs_us(limits: ProviderLimits, texts: Sequence[str]) -> tuple[int, int]:
    """How long a call keeps the next one away, by requests and by tokens."""
    by_requests = 0 if limits.requests_per_minute is None else -(-MINUTE_US // limits.requests_per_minute)
    if limits.tokens_per_minute is None:
        return by_requests, 0
    tokens = sum(map(estimated_tokens, texts))
    return by_requests, -(-MINUTE_US * tokens // limits.tokens_per_minute)
