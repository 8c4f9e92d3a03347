"""Both lock implementations keep the contract; the Redis one is also shown its bad days."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest
import redis

from knowledge_worker.errors import ConfigurationError, ServerUnusableError, ServiceUnavailableError
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.locks.redis import RedisLocks, check_server, connect, server_problem
from knowledge_worker.ports import LockState
from knowledge_worker.redis_server import shown_address
from knowledge_worker.testing.locks_contract import KEY, LONG_MS, LocksContract


class HandClock:
    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


class TestMemoryLocks(LocksContract):
    @pytest.fixture
    def clock(self) -> HandClock:
        return HandClock()

    @pytest.fixture
    def locks(self, clock: HandClock) -> MemoryLocks:
        return MemoryLocks(clock)

    @pytest.fixture
    def pass_time_ms(self, clock: HandClock) -> Callable[[int], None]:
        def pass_time(ms: int) -> None:
            clock.now_ms += ms

        return pass_time

    @pytest.fixture
    def forget(self, locks: MemoryLocks) -> Callable[[], None]:
        return locks.forget


@pytest.fixture
def client(redis_server_url: str) -> Iterator[redis.Redis]:
    client = connect(redis_server_url)
    client.flushall()
    yield client
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("requirepass", "")
    client.close()


class TestRedisLocks(LocksContract):
    @pytest.fixture
    def locks(self, client: redis.Redis) -> RedisLocks:
        return RedisLocks(client)

    @pytest.fixture
    def pass_time_ms(self) -> Callable[[int], None]:
        return lambda ms: time.sleep(ms / 1000)

    @pytest.fixture
    def forget(self, client: redis.Redis) -> Callable[[], None]:
        return client.flushall

    def test_the_key_is_used_as_given_and_expires(self, locks: RedisLocks, client: redis.Redis) -> None:
        locks.acquire(KEY, "a", lifetime_ms=LONG_MS)
        assert client.get(KEY) == b"a"
        assert 0 < client.pttl(KEY) <= LONG_MS

    def test_dropped_connections_go_unnoticed(self, locks: RedisLocks, client: redis.Redis) -> None:
        locks.acquire(KEY, "a", lifetime_ms=LONG_MS)
        client.client_kill_filter(_type="normal", skipme=False)
        assert locks.renew(KEY, "a", lifetime_ms=LONG_MS) is LockState.OURS


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_is_away_is_unreachable_and_releasing_never_raises(closed_port: int) -> None:
    locks = RedisLocks(connect(f"redis://127.0.0.1:{closed_port}"))
    assert locks.acquire(KEY, "a", lifetime_ms=LONG_MS) is LockState.UNREACHABLE
    assert locks.renew(KEY, "a", lifetime_ms=LONG_MS) is LockState.UNREACHABLE
    locks.release(KEY, "a")
    locks.close()


def test_a_server_that_hangs_is_unreachable() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        locks = RedisLocks(connect(f"redis://127.0.0.1:{silent.getsockname()[1]}"))
        assert locks.acquire(KEY, "a", lifetime_ms=LONG_MS) is LockState.UNREACHABLE
        locks.close()


def test_a_good_server_has_no_problem(redis_server_url: str, client: redis.Redis) -> None:
    check_server(redis_server_url)
    assert server_problem(redis_server_url) is None


def test_an_evicting_server_is_refused_with_the_command_to_run(redis_server_url: str, client: redis.Redis) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(ServerUnusableError, match="CONFIG SET maxmemory-policy noeviction"):
        check_server(redis_server_url)


def test_an_old_server_is_refused(redis_server_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis.Redis, "info", lambda self: {"redis_version": "5.0.14"})
    with pytest.raises(ServerUnusableError, match=r"5\.0\.14; 6\.2 or newer"):
        check_server(redis_server_url)


def test_a_server_that_forbids_info_is_taken_as_it_is(redis_server_url: str, client: redis.Redis) -> None:
    client.acl_setuser("reader", enabled=True, nopass=True, commands=["+@all", "-info"], keys=["*"])
    check_server(redis_server_url.replace("redis://", "redis://reader:x@"))


def test_a_missing_and_a_wrong_password_are_said_without_showing_it(redis_server_url: str, client: redis.Redis) -> None:
    client.config_set("requirepass", "open-sesame")
    assert "asks for a password" in (server_problem(redis_server_url) or "")
    wrong = server_problem(redis_server_url.replace("redis://", "redis://:guess-guess@")) or ""
    assert "refuses the user or password" in wrong
    assert "guess-guess" not in wrong


def test_a_database_number_the_server_lacks_is_said(redis_server_url: str, client: redis.Redis) -> None:
    assert "no database of the number" in (server_problem(redis_server_url + "/99") or "")


def test_a_server_that_is_away_is_named_by_host_and_port_only(closed_port: int) -> None:
    with pytest.raises(ServiceUnavailableError) as raised:
        check_server(f"redis://someone:secret-word@127.0.0.1:{closed_port}/2")
    assert f"127.0.0.1:{closed_port}" in str(raised.value)
    assert "secret-word" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["localhost:6379", "http://localhost", "redis://localhost/one", "redis://localhost:port"]
)
def test_an_address_that_is_none_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_REDIS_URL"):
        check_server(url)


def test_an_address_is_shown_without_credentials() -> None:
    assert shown_address("rediss://user:word@cache.example:6380/1") == "cache.example:6380"
    assert shown_address("redis://") == "localhost:6379"
    assert shown_address("unix:///run/redis.sock?db=1") == "/run/redis.sock"
