"""Leases in Redis: who works on a key now. They save work; the fence in PostgreSQL keeps it right."""

from __future__ import annotations

from typing import cast

import redis
import structlog
from redis.exceptions import RedisError

from knowledge_worker.ports import LockState
from knowledge_worker.redis_server import check_server, connect, server_problem

__all__ = ["RedisLocks", "check_server", "connect", "server_problem"]

log = structlog.get_logger()

# KEYS[1] the key, ARGV[1] the token, ARGV[2] its lifetime in milliseconds. One script takes and renews: a reply that
# was lost must not make its own token look like a stranger's, and a key that FLUSHALL took is set again.
_HOLD = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


class RedisLocks:
    """:class:`~knowledge_worker.ports.Locks` over one Redis; keys are used as given."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._hold = client.register_script(_HOLD)
        self._release = client.register_script(_RELEASE)

    def acquire(self, key: str, token: str, *, lifetime_ms: int) -> LockState:
        """Take ``key`` if nobody holds it, or if ``token`` holds it already; never waits for a holder."""
        return self._held(key, token, lifetime_ms)

    def renew(self, key: str, token: str, *, lifetime_ms: int) -> LockState:
        """Prolong it; a key that vanished is set again, another token's is left alone."""
        return self._held(key, token, lifetime_ms)

    def release(self, key: str, token: str) -> None:
        """Remove it if ``token`` holds it; a server that does not answer lets it expire."""
        try:
            self._release(keys=[key], args=[token])
        except RedisError as error:
            log.debug("lock_release_failed", key=key, error=type(error).__name__)

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def _held(self, key: str, token: str, lifetime_ms: int) -> LockState:
        try:
            ours = cast("int", self._hold(keys=[key], args=[token, lifetime_ms]))
        except RedisError as error:
            log.debug("lock_unreachable", key=key, error=type(error).__name__)
            return LockState.UNREACHABLE
        return LockState.OURS if ours else LockState.TAKEN
