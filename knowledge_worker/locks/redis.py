"""Leases in Redis: who works on a key now. They save work; the fence in PostgreSQL keeps it right."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlsplit

import redis
import structlog
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from knowledge_worker.errors import ConfigurationError, KnowledgeError, ServerUnusableError, ServiceUnavailableError
from knowledge_worker.ports import LockState

log = structlog.get_logger()

SOCKET_TIMEOUT_S = 2.0
"""The client's own default (5 s, 10 retries) waits a minute for a server that hangs."""

OLDEST_VERSION = (6, 2)

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


def connect(redis_url: str) -> redis.Redis:
    """A client that gives up on a silent server after two seconds; no connection is made yet.

    Raises:
        ConfigurationError: the URL is none that Redis clients know.
    """
    scheme = redis_url.partition("://")[0]
    if scheme not in ("redis", "rediss", "unix"):
        raise ConfigurationError("KNOWLEDGE_REDIS_URL starts with redis://, rediss:// (TLS) or unix://.")
    try:
        # The client takes a path that is no number for number 0, silently.
        if scheme != "unix":
            int(urlsplit(redis_url).path.strip("/") or 0)
        return redis.Redis.from_url(
            redis_url,
            socket_timeout=SOCKET_TIMEOUT_S,
            socket_connect_timeout=SOCKET_TIMEOUT_S,
            socket_keepalive=True,
            # One try more for a pooled connection that a restarted server closed; none for a server that is silent.
            retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        )
    except (ValueError, TypeError):
        raise ConfigurationError(
            "KNOWLEDGE_REDIS_URL is no Redis address: write redis://[user:password@]host[:port][/number]."
        ) from None


def shown_address(redis_url: str) -> str:
    """Host and port of a URL, or the path of its socket; never its user or password."""
    try:
        parts = urlsplit(redis_url)
        if parts.scheme == "unix":
            return parts.path
        return f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
    except ValueError:
        return "KNOWLEDGE_REDIS_URL"


def check_server(redis_url: str) -> None:
    """Look whether the server can serve as broker and for leases.

    Raises:
        ServiceUnavailableError: it does not answer.
        ServerUnusableError: it answers but is too old, a replica, evicts keys, or refuses the credentials.
        ConfigurationError: the URL is none.
    """
    address = shown_address(redis_url)
    client = connect(redis_url)
    try:
        info = _info(client, address)
    finally:
        client.close()
    if info is not None:
        _check_info(info, address)


def server_problem(redis_url: str) -> str | None:
    """The same as :func:`check_server` in one line, or None when all is well."""
    try:
        check_server(redis_url)
    except KnowledgeError as error:
        return error.message
    return None


def _info(client: redis.Redis, address: str) -> dict[str, Any] | None:
    """What INFO says; None where a managed server forbids it."""
    try:
        client.ping()
        return client.info()
    except NoPermissionError:
        return None
    except AuthenticationError:
        if not client.get_connection_kwargs().get("password"):
            raise ServerUnusableError(
                f"Redis at {address} asks for a password: put it into KNOWLEDGE_REDIS_URL."
            ) from None
        raise ServerUnusableError(f"Redis at {address} refuses the user or password in KNOWLEDGE_REDIS_URL.") from None
    except ResponseError as error:
        if "DB index" in str(error):
            raise ServerUnusableError(
                f"Redis at {address} has no database of the number in KNOWLEDGE_REDIS_URL."
            ) from None
        return None
    except (RedisError, OSError, UnicodeError) as error:
        raise ServiceUnavailableError(
            f"Redis at {address} does not answer ({type(error).__name__}): start it or correct KNOWLEDGE_REDIS_URL."
        ) from None


def _check_info(info: dict[str, Any], address: str) -> None:
    # Valkey reports the Redis version it is compatible with (7.2) here.
    version = str(info.get("redis_version", ""))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if len(numbers) == 2 and numbers < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise ServerUnusableError(
            f"Redis at {address} is version {version}; {oldest} or newer is needed, or any Valkey."
        )
    if info.get("role") == "slave":
        raise ServerUnusableError(
            f"Redis at {address} is a read-only replica; name its primary in KNOWLEDGE_REDIS_URL."
        )
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        raise ServerUnusableError(
            f"Redis at {address} may evict keys (maxmemory-policy {policy}), which loses messages and leases; "
            f"run: CONFIG SET maxmemory-policy noeviction"
        )
