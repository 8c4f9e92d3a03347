"""Provider limits in Redis, shared by every process that uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import redis
import structlog
from redis.exceptions import RedisError

from knowledge_worker.limiters.memory import MemoryRateLimiter
from knowledge_worker.ports import Reservation

log = structlog.get_logger()

PREFIX: Final = "knowledge:provider:"
"""No lease has such a key: a collection's name holds no colon."""

# KEYS[1] the provider's hash; ARGV: patience in µs, how long a probe keeps the others away in µs, 1 to ignore a pause,
# then what each limit costs in µs. The server's clock counts, so that replicas agree. A generic cell rate algorithm
# (ITU-T I.371) without a burst: calls are spaced. "paused" outlives the pause, until a call was answered.
_RESERVE = """
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local paused = redis.call('HGET', KEYS[1], 'paused')
if paused and tonumber(paused) > now and ARGV[3] == '0' then return {0, tonumber(paused) - now, 1} end
local start = now
for i = 4, #ARGV do
  if ARGV[i] ~= '0' then start = math.max(start, tonumber(redis.call('HGET', KEYS[1], i) or 0)) end
end
if start - now > tonumber(ARGV[1]) then return {0, start - now, 0} end
local ends = now
local function set(field, value)
  redis.call('HSET', KEYS[1], field, string.format('%.0f', value))
  ends = math.max(ends, value)
end
for i = 4, #ARGV do
  if ARGV[i] ~= '0' then set(i, start + tonumber(ARGV[i])) end
end
if paused then set('paused', math.max(tonumber(paused), start + tonumber(ARGV[2]))) end
local left = math.ceil((ends - now) / 1000) + tonumber(ARGV[2]) / 1000
if ends > now and redis.call('PTTL', KEYS[1]) < left then redis.call('PEXPIRE', KEYS[1], math.ceil(left)) end
return {1, start - now, paused and 1 or 0}
"""

_PAUSE = """
local t = redis.call('TIME')
local ends = t[1] * 1000000 + t[2] + tonumber(ARGV[1]) * 1000
if ends > tonumber(redis.call('HGET', KEYS[1], 'paused') or 0) then
  redis.call('HSET', KEYS[1], 'paused', string.format('%.0f', ends))
end
local left = tonumber(ARGV[1]) + tonumber(ARGV[2])
if redis.call('PTTL', KEYS[1]) < left then redis.call('PEXPIRE', KEYS[1], left) end
"""

_REMEMBERED_MS: Final = 60_000
"""After a pause; later nobody remembers it, and all may call at once."""


class RedisRateLimiter:
    """:class:`~knowledge_worker.ports.RateLimiter` over one Redis.

    While the server does not answer, each process keeps the limits by itself.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._reserve = client.register_script(_RESERVE)
        self._pause = client.register_script(_PAUSE)
        self._alone = MemoryRateLimiter()

    def reserve(
        self, provider: str, *, costs_us: Sequence[int], patience_ms: int, probe_ms: int, despite_pause: bool = False
    ) -> Reservation:
        """Take the next free time, unless it is too far off."""
        arguments = [patience_ms * 1000, probe_ms * 1000, int(despite_pause), *costs_us]
        try:
            answer = cast("list[int]", self._reserve(keys=[PREFIX + provider], args=arguments))
        except RedisError as error:
            log.debug("limits_kept_alone", provider=provider, error=type(error).__name__)
            return self._alone.reserve(
                provider,
                costs_us=costs_us,
                patience_ms=patience_ms,
                probe_ms=probe_ms,
                despite_pause=despite_pause,
            )
        granted, wait_us, paused = answer
        wait_ms = -(-wait_us // 1000)
        if granted:
            return Reservation(granted=True, wait_ms=wait_ms, probing=bool(paused))
        return Reservation(granted=False, wait_ms=wait_ms, paused=bool(paused))

    def pause(self, provider: str, *, ms: int) -> None:
        """No call of any process before ``ms`` have passed, and then one alone."""
        self._alone.pause(provider, ms=ms)
        try:
            self._pause(keys=[PREFIX + provider], args=[ms, _REMEMBERED_MS])
        except RedisError as error:
            log.debug("pause_kept_alone", provider=provider, error=type(error).__name__)

    def resume(self, provider: str) -> None:
        """End a pause."""
        self._alone.resume(provider)
        try:
            self._client.hdel(PREFIX + provider, "paused")
        except RedisError as error:
            log.debug("pause_kept", provider=provider, error=type(error).__name__)

    def close(self) -> None:
        """Close every connection."""
        self._client.close()
