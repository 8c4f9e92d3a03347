"""Both rate limiters keep the contract; the Redis one is shared, and goes on alone without its server."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from knowledge_worker.limiters.memory import MemoryRateLimiter
from knowledge_worker.limiters.redis import PREFIX, RedisRateLimiter
from knowledge_worker.redis_server import connect
from knowledge_worker.testing.limiter_contract import RateLimiterContract, ask


class HandClock:
    now_ms = 1_000_000.0

    def __call__(self) -> float:
        return self.now_ms


class TestMemoryRateLimiter(RateLimiterContract):
    @pytest.fixture
    def clock(self) -> HandClock:
        return HandClock()

    @pytest.fixture
    def limiter(self, clock: HandClock) -> MemoryRateLimiter:
        return MemoryRateLimiter(clock)

    @pytest.fixture
    def pass_time_ms(self, clock: HandClock) -> Callable[[int], None]:
        def pass_time(ms: int) -> None:
            clock.now_ms += ms

        return pass_time


@pytest.fixture
def client(redis_server_url: str) -> Iterator[redis.Redis]:
    client = connect(redis_server_url)
    client.flushall()
    yield client
    client.close()


class TestRedisRateLimiter(RateLimiterContract):
    @pytest.fixture
    def limiter(self, client: redis.Redis) -> RedisRateLimiter:
        return RedisRateLimiter(client)

    @pytest.fixture
    def pass_time_ms(self) -> Callable[[int], None]:
        return lambda ms: time.sleep(ms / 1000)

    def test_callers_of_all_processes_take_turns(self, redis_server_url: str, client: redis.Redis) -> None:
        limiters = [RedisRateLimiter(connect(redis_server_url)) for _ in range(4)]
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda n: ask(limiters[n % 4], (1_000_000, 0)), range(40)))
        for limiter in limiters:
            limiter.close()
        assert [answer.granted for answer in answers] == [True] * 40
        waits = sorted(answer.wait_ms for answer in answers)
        assert all(later - earlier > 500 for earlier, later in itertools.pairwise(waits))

    def test_what_is_over_is_forgotten(self, limiter: RedisRateLimiter, client: redis.Redis) -> None:
        ask(limiter, (1_000_000, 0))
        limiter.pause("b", ms=1000)
        for provider in ("a", "b"):
            assert 1000 < client.pttl(PREFIX + provider) <= 61_000
        ask(limiter, provider="c")
        assert not client.exists(PREFIX + "c")

    def test_redis_emptied_forgets_a_pause_and_nothing_breaks(
        self, limiter: RedisRateLimiter, client: redis.Redis
    ) -> None:
        limiter.pause("a", ms=60_000)
        client.flushall()
        client.script_flush()
        assert ask(limiter).granted


def test_without_its_server_a_process_keeps_the_limits_alone() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    limiter = RedisRateLimiter(connect(f"redis://127.0.0.1:{port}"))
    assert ask(limiter, (10_000_000, 0)).wait_ms == 0
    assert 8_000 < ask(limiter, (10_000_000, 0)).wait_ms <= 10_000
    limiter.pause("b", ms=60_000)
    assert ask(limiter, provider="b").paused
    limiter.resume("b")
    assert ask(limiter, provider="b").granted
    limiter.close()
