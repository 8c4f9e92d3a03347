"""Settings to parts: the one place that names concrete classes."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from celery import Celery

from knowledge_worker._version import __version__
from knowledge_worker.chunking import CHUNKER_VERSION
from knowledge_worker.config import Settings
from knowledge_worker.declarations import KnowledgeCollection
from knowledge_worker.embedding.resolver import Models
from knowledge_worker.errors import ConfigurationError, KnowledgeError
from knowledge_worker.indexing.provider_gate import ProviderGate, ProviderLimits
from knowledge_worker.limiters.measured import MeasuredRateLimiter
from knowledge_worker.limiters.memory import MemoryRateLimiter
from knowledge_worker.limiters.redis import RedisRateLimiter
from knowledge_worker.locks.redis import RedisLocks
from knowledge_worker.ports import Clock, EmbeddingModel, Locks, ModelResolver, Observer, RateLimiter, WorkQueue
from knowledge_worker.queue.celery import CeleryQueue, consumers, create_celery, queue_lengths
from knowledge_worker.redis_server import connect
from knowledge_worker.service.collections import ManagedCollections
from knowledge_worker.service.documents import Documents
from knowledge_worker.service.models import ModelBook
from knowledge_worker.service.passes import PassRunner
from knowledge_worker.service.searching import Searching
from knowledge_worker.store.postgres import PostgresStore
from knowledge_worker.store.protocol import DeclaredCollection, Store
from knowledge_worker.telemetry.observers import Observers
from knowledge_worker.telemetry.prometheus import Metrics
from knowledge_worker.telemetry.state import StateCollector
from knowledge_worker.telemetry.tracing import tracing

ALIVE_TICKS: Final = 6
"""A worker that was not seen for so many ticks is dead: it no longer holds a declaration up."""
CONSUMERS_TIMEOUT_S: Final = 0.3
"""Workers that are asked what they consume answer within it, or are asked again in peace; all of it passes."""
THREADS_FOR_PASSES: Final = 2
"""Of a worker's threads: one collection's helpers leave them to the passes of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Parts a caller brings along instead of those the settings name."""

    store: Store | None = None
    locks: Locks | None = None
    queue: WorkQueue | None = None
    limiter: RateLimiter | None = None
    models: ModelResolver | None = None
    clock: Clock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything a process needs, made once and closed together.

    Attributes:
        node: names this process.
        declared: what the code declares, as the store keeps it.
        celery: None when the caller brought its own queue.
        state: of the whole deployment, for metrics.
    """

    node: str
    declared: tuple[DeclaredCollection, ...]
    store: Store
    locks: Locks
    queue: WorkQueue
    models: ModelBook
    runner: PassRunner
    searching: Searching
    managed: ManagedCollections
    documents: Documents
    celery: Celery | None
    state: StateCollector
    close: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """Who is told what a process does.

    Attributes:
        observer: the metrics, and traces where they are asked for.
        close: sends the last traces.
    """

    metrics: Metrics
    observer: Observer
    close: Callable[[], None]


def measuring(settings: Settings) -> Measuring:
    """Make the observers of one process; nothing is connected to before something is observed.

    Raises:
        ConfigurationError: a variable of OpenTelemetry has a value that is not known here.
    """
    prices = {name: one.price_per_million_tokens for name, one in settings.providers.items()}
    metrics = Metrics(
        version=__version__,
        prices={name: price for name, price in prices.items() if price is not None},
        collections_max=settings.metrics_collections,
    )
    traces = tracing()
    if traces is None:
        return Measuring(metrics=metrics, observer=metrics, close=lambda: None)
    observer, close = traces
    return Measuring(metrics=metrics, observer=Observers([observer, metrics]), close=close)


def build(
    settings: Settings,
    collections: Sequence[KnowledgeCollection],
    default_model: str | EmbeddingModel | None,
    overrides: Overrides,
    stop: threading.Event,
    observer: Observer,
) -> Parts:
    """Make the parts of one process; servers are connected to when they are first used.

    Raises:
        ConfigurationError: an address is missing or malformed.
    """
    closing: list[Callable[[], None]] = []
    limits = settings.limits
    node = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    declared: dict[str, KnowledgeCollection] = {one.name: one for one in collections}
    fingerprints: dict[str, str] = {one.name: one.fingerprint(CHUNKER_VERSION, settings.release) for one in collections}
    store = overrides.store
    if store is None:
        store = PostgresStore(
            database_url(settings), limits=limits, pool_size=settings.database_pool, clock=overrides.clock
        )
        closing.append(store.close)
    locks, queue, celery = overrides.locks, overrides.queue, None
    limiter = overrides.limiter
    if limiter is None and locks is not None:
        limiter = MemoryRateLimiter(_now_ms(overrides.clock))
    if limiter is None:
        redis_limiter = RedisRateLimiter(connect(redis_url(settings)))
        limiter = redis_limiter
        closing.append(redis_limiter.close)
    if locks is None:
        redis_locks = RedisLocks(connect(redis_url(settings)))
        locks = redis_locks
        closing.append(redis_locks.close)
    if queue is None:
        celery = create_celery(settings)
        celery_queue = CeleryQueue(celery, redis_url(settings), carrier=observer.carrier)
        queue = celery_queue
        closing.append(celery_queue.close)
    resolver = overrides.models
    if resolver is None:
        resolver = Models(providers=settings.providers, quota_retry_ms=settings.quota_retry_ms)
    models = ModelBook(resolver, declared=declared, default=default_model, observer=observer)
    gate = ProviderGate(MeasuredRateLimiter(limiter, observer), _provider_limits(settings), pause_ms=limits.retry_ms)
    return Parts(
        node=node,
        declared=tuple(
            DeclaredCollection(
                name=one.name,
                title=one.title,
                description=one.description,
                model=one.model_id,
                language=one.language,
                trusted=one.trusted,
                resync_ms=one.resync_ms,
                fingerprint=fingerprints[one.name],
            )
            for one in collections
        ),
        store=store,
        locks=locks,
        queue=queue,
        models=models,
        runner=PassRunner(
            store=store,
            locks=locks,
            queue=queue,
            models=models,
            declared=declared,
            fingerprints=fingerprints,
            limits=limits,
            gate=gate,
            helpers_max=max(1, settings.concurrency - THREADS_FOR_PASSES),
            node=node,
            stop=stop,
            observer=observer,
        ),
        searching=Searching(store=store, models=models, declared=declared, gate=gate, limits=limits, observer=observer),
        managed=ManagedCollections(store=store, locks=locks, queue=queue, models=models, declared=declared.keys()),
        documents=Documents(store=store, queue=queue),
        celery=celery,
        state=_state(settings, store, celery),
        close=lambda: _close_all(closing),
    )


def _provider_limits(settings: Settings) -> dict[str, ProviderLimits]:
    return {
        name: ProviderLimits(
            requests_per_minute=one.requests_per_minute,
            tokens_per_minute=one.tokens_per_minute,
            tokens_per_call=one.max_request_tokens,
        )
        for name, one in settings.providers.items()
    }


def _state(settings: Settings, store: Store, celery: Celery | None) -> StateCollector:
    return StateCollector(
        store.health,
        collections_max=settings.metrics_collections,
        alive_ms=ALIVE_TICKS * settings.tick_ms,
        queue_lengths=lambda: {} if celery is None else queue_lengths(redis_url(settings)),
        queue_consumers=lambda: {} if celery is None else _consumers(celery),
    )


def _now_ms(clock: Clock | None) -> Callable[[], float] | None:
    return None if clock is None else lambda: clock().timestamp() * 1000


def broker_problems(celery: Celery) -> list[str]:
    """Queues that no worker consumes, or that Redis does not answer; one line each."""
    try:
        found = _consumers(celery)
    except KnowledgeError as error:
        return [f"redis: {error.message}"]
    return [
        f'queue "{name}": no worker consumes it; start one with `knowledge-worker worker`'
        for name, count in found.items()
        if count == 0
    ]


def _consumers(celery: Celery) -> dict[str, int]:
    found = consumers(celery, timeout=CONSUMERS_TIMEOUT_S)
    return found if all(found.values()) else consumers(celery, timeout=1.0)


def database_url(settings: Settings) -> str:
    """The database's address.

    Raises:
        ConfigurationError: none is set.
    """
    if settings.database_url is None:
        raise ConfigurationError(
            "No database: start `knowledge-worker up`, or set KNOWLEDGE_DATABASE_URL and KNOWLEDGE_REDIS_URL."
        )
    return settings.database_url.get_secret_value()


def redis_url(settings: Settings) -> str:
    """The address of Redis.

    Raises:
        ConfigurationError: none is set.
    """
    if settings.redis_url is None:
        raise ConfigurationError(
            "No Redis: start `knowledge-worker up`, or set KNOWLEDGE_DATABASE_URL and KNOWLEDGE_REDIS_URL."
        )
    return settings.redis_url.get_secret_value()


def _close_all(closing: Sequence[Callable[[], None]]) -> None:
    for close in reversed(closing):
        close()
