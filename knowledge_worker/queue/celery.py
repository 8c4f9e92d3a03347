"""The Celery application and nudges through it. A message says "look at collection X" and may be lost or doubled.

What each setting is for is measured in docs/decisions; the short form: PostgreSQL holds the work, so acknowledge
early, reserve nothing, and never use ``countdown``, ``eta`` or ``retry``.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

import structlog
from celery import Celery, signals
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from kombu import Exchange, Queue
from kombu.exceptions import KombuError
from kombu.exceptions import OperationalError as BrokerError
from kombu.pools import ProducerPool
from redis.exceptions import RedisError

from knowledge_worker._bundled import load_beat_schedule
from knowledge_worker.config import Settings
from knowledge_worker.errors import ConfigurationError, ServiceUnavailableError
from knowledge_worker.redis_server import connect

log = structlog.get_logger()

SYNC_TASK: Final = "knowledge.sync"
EMBED_TASK: Final = "knowledge.embed"
TICK_TASK: Final = "knowledge.tick"

QUEUES: Final = ("control", "sync", "embed")
"""In the order in which a worker empties them: a tick never waits behind long work."""

TASK_QUEUES: Final = {TICK_TASK: "control", SYNC_TASK: "sync", EMBED_TASK: "embed"}

KEY_PREFIX: Final = "kw:"

NUDGE_EXPIRES_S: Final = 60
"""A nudge older than this is dropped unread: the tick has asked again meanwhile."""

PUBLISH_TIMEOUT_S: Final = 1.0
PUBLISHERS: Final = 32
"""Callers of one process that publish at once; further ones wait for the first to be done."""
BRPOP_TIMEOUT_S: Final = 0.05
REST_S: Final = 2.0
WARN_EVERY_S: Final = 30.0

_PUBLISH_ERRORS = (BrokerError, KombuError, RedisError, OSError)


def create_celery(settings: Settings) -> Celery:
    """The application that workers, beat, Flower and publishers share; nothing is connected yet.

    Raises:
        ConfigurationError: no Redis is set, or its address is none.
    """
    if settings.redis_url is None:
        raise ConfigurationError("Set KNOWLEDGE_REDIS_URL: workers are woken through Redis.")
    redis_url = settings.redis_url.get_secret_value()
    connect(redis_url).close()  # looks at the address only
    app = Celery("knowledge", set_as_current=False)
    url = broker_url(redis_url)
    app.conf.update(
        broker_url=url,
        # Certificates are checked unless the address says otherwise (?ssl_cert_reqs=none).
        broker_use_ssl={"ssl_cert_reqs": "required"} if url.startswith("rediss://") and "ssl_" not in url else None,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_pool_acquire_timeout=5,
        broker_transport_options={
            "visibility_timeout": 3600,
            "socket_timeout": 5,
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "health_check_interval": 10,
            "queue_order_strategy": "priority",
            "global_keyprefix": KEY_PREFIX,
        },
        accept_content=["json"],
        task_serializer="json",
        task_ignore_result=True,
        task_acks_late=False,
        task_queues=[Queue(name, Exchange(name, type="direct"), routing_key=name) for name in QUEUES],
        task_default_queue="sync",
        task_create_missing_queues=False,
        task_routes={task: {"queue": queue} for task, queue in TASK_QUEUES.items()},
        task_publish_retry_policy={"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.2},
        task_send_sent_event=True,
        task_track_started=True,
        worker_pool="threads",
        worker_concurrency=settings.concurrency,
        worker_disable_prefetch=True,
        worker_prefetch_multiplier=1,
        worker_send_task_events=True,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_enable_remote_control=True,
        beat_scheduler="celery.beat:Scheduler",
        beat_schedule=load_beat_schedule().beat_schedule(tick_ms=settings.tick_ms),
        enable_utc=True,
        timezone="UTC",
    )
    return app


def leave_logging_to_us() -> None:
    """Keep Celery in this process from setting up loggers, and from warnings that do not concern us."""
    signals.setup_logging.connect(_loggers_are_set_up, weak=False)
    # About late acknowledgement, which is off, and about running as root with pickle, which is not accepted.
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)
    warnings.filterwarnings("ignore", category=SecurityWarning)


def _loggers_are_set_up(**_: Any) -> None:
    """With a receiver for this signal Celery leaves the loggers alone."""


def broker_url(redis_url: str) -> str:
    """The address as Celery spells it; only that of a Unix socket differs."""
    if not redis_url.startswith("unix://"):
        return redis_url
    parts = urlsplit(redis_url)
    number = parts.query.removeprefix("db=") if parts.query.startswith("db=") else "0"
    credentials, _, _ = parts.netloc.rpartition("@")
    return f"redis+socket://{credentials + '@' if credentials else ''}{parts.path}?virtual_host={number}"


class CeleryQueue:
    """:class:`~knowledge_worker.ports.WorkQueue` over Celery.

    A broker that is away costs one short try; for the next two seconds nothing is tried at all, so that a caller is
    never held up twice. What was not sent is found by the next tick.

    Args:
        app: of :func:`create_celery`.
        redis_url: the same server.
        now_s: a clock in seconds that never goes back.
        carrier: headers of each message, so that traces can follow it.
    """

    def __init__(
        self,
        app: Celery,
        redis_url: str,
        *,
        now_s: Callable[[], float] = time.monotonic,
        carrier: Callable[[], Mapping[str, str]] = dict[str, str],
    ) -> None:
        self._app = app
        self._carrier = carrier
        self._now_s = now_s
        self._rests_until_s = float("-inf")
        self._silent_until_s = float("-inf")
        # Less patient than the consumers' connections: a caller waits for this one.
        self._connection = app.connection_for_write(
            transport_options={
                "socket_timeout": PUBLISH_TIMEOUT_S,
                "socket_connect_timeout": PUBLISH_TIMEOUT_S,
                "max_retries": 1,
            }
        )
        # Not kombu's own pools: two queues of one process on one server share those, and one would close the other's.
        self._connections = self._connection.Pool(limit=PUBLISHERS)
        self._producers = ProducerPool(self._connections, limit=PUBLISHERS)
        # Asked before Celery is: its transport tries ten times to reconnect, which takes up to six seconds.
        self._probe = connect(redis_url, timeout_s=PUBLISH_TIMEOUT_S)

    def nudge_sync(self, collection: str) -> bool:
        """Ask some worker to look at the collection; False when that could not be sent."""
        return self._send(SYNC_TASK, collection, times=1)

    def nudge_embed(self, collection: str, *, helpers: int) -> bool:
        """Ask up to ``helpers`` workers to embed what is pending; False when that could not be sent."""
        return self._send(EMBED_TASK, collection, times=helpers)

    def close(self) -> None:
        """Close the connections of this queue."""
        cast("Any", self._producers).force_close_all()
        self._connections.force_close_all()
        self._connection.release()
        self._probe.close()

    def _send(self, task: str, collection: str, *, times: int) -> bool:
        if times < 1:
            return True
        if self._now_s() < self._rests_until_s:
            return False
        try:
            self._probe.ping()
            with self._producers.acquire(block=True, timeout=PUBLISH_TIMEOUT_S) as producer:
                for _ in range(times):
                    self._app.send_task(
                        task,
                        args=[collection],
                        queue=TASK_QUEUES[task],
                        expires=NUDGE_EXPIRES_S,
                        retry=False,
                        ignore_result=True,
                        headers=dict(self._carrier()),
                        producer=producer,
                    )
        except _PUBLISH_ERRORS as error:
            self._failed(task, collection, error)
            return False
        return True

    def _failed(self, task: str, collection: str, error: Exception) -> None:
        now_s = self._now_s()
        self._rests_until_s = now_s + REST_S
        if now_s >= self._silent_until_s:
            self._silent_until_s = now_s + WARN_EVERY_S
            cause = error.__cause__ or error
            log.warning("nudge_not_sent", task=task, collection=collection, error=type(cause).__name__)


def consumers(app: Celery, timeout: float = 1.0) -> dict[str, int]:
    """How many workers consume each queue.

    Args:
        app: of :func:`create_celery`.
        timeout: seconds to wait for the workers' answers; all of it passes.

    Returns:
        Every queue's name and the number of workers that answered for it; 0 where none did.

    Raises:
        ServiceUnavailableError: the broker does not answer.
    """
    try:
        _probe(app)
        # Not a pooled connection: there, the BRPOP that the last question left behind takes the answers away. It ends
        # with its own timeout, which is the polling interval, and closing waits for that.
        with app.connection_for_write(transport_options={"polling_interval": BRPOP_TIMEOUT_S}) as connection:
            answers = app.control.inspect(timeout=timeout, connection=connection).active_queues()
    except _PUBLISH_ERRORS as error:
        cause = error.__cause__ or error
        raise ServiceUnavailableError(f"Redis does not answer ({type(cause).__name__}).") from None
    queues_by_worker = cast("dict[str, list[dict[str, Any]]]", answers or {})
    found = Counter(queue["name"] for queues in queues_by_worker.values() for queue in queues)
    return {name: found[name] for name in QUEUES}


def queue_lengths(redis_url: str) -> dict[str, int]:
    """How many messages wait in each queue.

    Raises:
        ServiceUnavailableError: the broker does not answer.
    """
    client = connect(redis_url, timeout_s=PUBLISH_TIMEOUT_S)
    try:
        return {name: client.llen(KEY_PREFIX + name) for name in QUEUES}
    except RedisError as error:
        raise ServiceUnavailableError(f"Redis does not answer ({type(error).__name__}).") from None
    finally:
        client.close()


def _probe(app: Celery) -> None:
    """Fail at once where Celery's own transport would try to reconnect for six seconds."""
    url = str(app.conf.broker_url)
    if url.startswith(("redis://", "rediss://")):
        client = connect(url, timeout_s=PUBLISH_TIMEOUT_S)
        try:
            client.ping()
        finally:
            client.close()
