"""The Redis server: connecting to it, naming it without its password, and whether it can be used."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from knowledge_worker.errors import ConfigurationError, KnowledgeError, ServerUnusableError, ServiceUnavailableError

SOCKET_TIMEOUT_S: Final = 2.0
"""The client's own default (5 s, 10 retries) waits a minute for a server that hangs."""

OLDEST_VERSION: Final = (6, 2)


def connect(redis_url: str, *, timeout_s: float = SOCKET_TIMEOUT_S) -> redis.Redis:
    """A client that gives up on a silent server after ``timeout_s`` seconds; no connection is made yet.

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
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
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
