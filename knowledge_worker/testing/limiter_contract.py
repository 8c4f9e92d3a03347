"""What every implementation of :class:`knowledge_worker.ports.RateLimiter` keeps.

Subclass it, name the class ``Test…`` and give the fixtures ``limiter`` and ``pass_time_ms``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from knowledge_worker.ports import RateLimiter, Reservation

SLACK_MS = 60
"""What a real clock may add between two statements of a test."""


def ask(
    limiter: RateLimiter,
    costs_us: Sequence[int] = (0, 0),
    *,
    provider: str = "a",
    patience_ms: int = 60_000,
    despite_pause: bool = False,
) -> Reservation:
    """Reserve a call."""
    return limiter.reserve(
        provider, costs_us=costs_us, patience_ms=patience_ms, probe_ms=5_000, despite_pause=despite_pause
    )


class RateLimiterContract:
    """The suite; ``pass_time_ms(n)`` lets ``n`` milliseconds pass."""

    def test_without_a_cost_there_is_no_wait(self, limiter: RateLimiter) -> None:
        """Nothing is limited."""
        assert [ask(limiter) for _ in range(3)] == [Reservation(granted=True, wait_ms=0)] * 3

    def test_calls_are_spaced_by_their_cost(self, limiter: RateLimiter) -> None:
        """Each reserves the time after the one before."""
        waits = [ask(limiter, (1_000_000, 0)).wait_ms for _ in range(4)]
        for place, wait in enumerate(waits):
            assert 1000 * place - SLACK_MS <= wait <= 1000 * place

    def test_the_tightest_limit_counts(self, limiter: RateLimiter) -> None:
        """Requests and tokens are limited apart."""
        ask(limiter, (100_000, 3_000_000))
        assert 3000 - SLACK_MS <= ask(limiter, (100_000, 1)).wait_ms <= 3000

    def test_what_is_too_far_off_is_not_reserved(self, limiter: RateLimiter) -> None:
        """Who is refused keeps nobody away."""
        ask(limiter, (10_000_000, 0))
        refused = [ask(limiter, (10_000_000, 0), patience_ms=1000) for _ in range(3)]
        assert {(one.granted, one.paused) for one in refused} == {(False, False)}
        assert all(10_000 - SLACK_MS <= one.wait_ms <= 10_000 for one in refused)
        assert ask(limiter, (10_000_000, 0), patience_ms=20_000).wait_ms <= 10_000

    def test_providers_are_independent(self, limiter: RateLimiter) -> None:
        """One that is used up or paused says nothing about another one."""
        ask(limiter, (10_000_000, 0))
        limiter.pause("a", ms=10_000)
        assert ask(limiter, (10_000_000, 0), provider="b") == Reservation(granted=True, wait_ms=0)

    def test_nobody_calls_during_a_pause(self, limiter: RateLimiter) -> None:
        """However patient; and a shorter pause does not shorten it."""
        limiter.pause("a", ms=10_000)
        limiter.pause("a", ms=10)
        answer = ask(limiter)
        assert (answer.granted, answer.paused) == (False, True)
        assert 10_000 - SLACK_MS <= answer.wait_ms <= 10_000

    def test_after_a_pause_one_call_goes_first(self, limiter: RateLimiter, pass_time_ms: Callable[[int], None]) -> None:
        """The others follow when it was answered."""
        limiter.pause("a", ms=50)
        pass_time_ms(100)
        first, second = ask(limiter), ask(limiter)
        assert (first.granted, first.probing) == (True, True)
        assert (second.granted, second.paused) == (False, True)
        limiter.resume("a")
        assert ask(limiter) == Reservation(granted=True, wait_ms=0)

    def test_a_probe_without_an_end_is_followed_by_another(
        self, limiter: RateLimiter, pass_time_ms: Callable[[int], None]
    ) -> None:
        """Its process may have died."""
        limiter.pause("a", ms=50)
        pass_time_ms(100)
        assert limiter.reserve("a", costs_us=(), patience_ms=0, probe_ms=100).probing
        assert not limiter.reserve("a", costs_us=(), patience_ms=0, probe_ms=100).granted
        pass_time_ms(150)
        assert limiter.reserve("a", costs_us=(), patience_ms=0, probe_ms=100).probing

    def test_somebody_may_insist(self, limiter: RateLimiter) -> None:
        """A call that was asked for explicitly is made in a pause, within the limits."""
        ask(limiter, (2_000_000, 0))
        limiter.pause("a", ms=60_000)
        insisting = ask(limiter, (2_000_000, 0), despite_pause=True)
        assert (insisting.granted, insisting.probing) == (True, True)
        assert 2000 - SLACK_MS <= insisting.wait_ms <= 2000
        assert ask(limiter).paused
