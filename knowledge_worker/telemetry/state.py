"""What the whole deployment looks like, read from PostgreSQL and Redis when somebody asks for the metrics.

Each API process answers the same; in a query take the maximum over instances, never the sum.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

import structlog
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from knowledge_worker.domain.vitals import CollectionVitals, DocumentVitals, Pulse
from knowledge_worker.errors import KnowledgeError
from knowledge_worker.store.protocol import Health
from knowledge_worker.telemetry.names import OTHERS

log = structlog.get_logger()

KEPT_S: Final = 5.0
"""An answer is given again for so long: whoever asks more often does not load the servers."""


class StateCollector(Collector):
    """Gauges of the state that all processes share; any thread may ask, and one at a time looks.

    Args:
        collections_max: how many collections are told apart.
        alive_ms: a worker that was not seen for so long is dead.
        queue_lengths: messages that wait in each queue.
        queue_consumers: how many workers consume each queue.
        now_s: a clock in seconds that never goes back.
    """

    def __init__(
        self,
        health: Health,
        *,
        collections_max: int,
        alive_ms: int,
        queue_lengths: Callable[[], Mapping[str, int]],
        queue_consumers: Callable[[], Mapping[str, int]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._looks: dict[str, Callable[[], list[Metric]]] = {
            "pulse": lambda: _pulse(health.pulse(alive_ms=alive_ms)),
            "collections": lambda: _collections(health.collections(most=collections_max, others=OTHERS)),
            "documents": lambda: _documents(health.documents(most=collections_max, others=OTHERS)),
            "passages": lambda: [
                _gauge(
                    "collection_passages",
                    "Passages that searches look at.",
                    "collection",
                    health.passages(most=collections_max, others=OTHERS),
                )
            ],
            "queues": lambda: [_gauge("queue_messages", "Messages that wait.", "queue", queue_lengths())],
            "consumers": lambda: [_gauge("queue_consumers", "Workers that answered.", "queue", queue_consumers())],
        }
        self._now_s = now_s
        self._mutex = threading.Lock()
        self._kept: list[Metric] = []
        self._kept_until_s = float("-inf")

    def collect(self) -> Iterable[Metric]:
        """The state of now, or of a moment ago; what could not be read is missing and says so."""
        with self._mutex:
            if self._now_s() >= self._kept_until_s:
                self._kept = self._look()
                self._kept_until_s = self._now_s() + KEPT_S
            return self._kept

    def describe(self) -> Iterable[Metric]:
        """Nothing: to register is not to look."""
        return ()

    def _look(self) -> list[Metric]:
        found: list[Metric] = []
        success: dict[str, float] = {}
        for part, look in self._looks.items():
            try:
                found += look()
                success[part] = 1
            except KnowledgeError as error:
                log.warning("state_not_read", part=part, error=error.message)
                success[part] = 0
        return [*found, _gauge("state_read_success", "Whether this part could be read: 1 or 0.", "part", success)]


def _pulse(pulse: Pulse) -> list[Metric]:
    metrics: list[Metric] = [
        GaugeMetricFamily("knowledge_stuck_claims", "Documents that a dead worker left.", value=pulse.stuck_claims),
        GaugeMetricFamily("knowledge_workers", "Worker processes that say they live.", value=pulse.workers),
    ]
    if pulse.ticked_at is not None:
        metrics.append(
            GaugeMetricFamily(
                "knowledge_last_tick_timestamp_seconds", "The last tick.", value=pulse.ticked_at.timestamp()
            )
        )
    return metrics


def _collections(found: Iterable[CollectionVitals]) -> list[Metric]:
    ones = list(found)

    def gauge(name: str, what: str, value: Callable[[CollectionVitals], float | None]) -> Metric:
        return _gauge(f"collection_{name}", what, "collection", {one.name: value(one) for one in ones})

    return [
        GaugeMetricFamily("knowledge_collections", "Stored.", value=sum(one.collections for one in ones)),
        gauge("synced_timestamp_seconds", "End of the last successful pass.", lambda one: _seconds(one.synced_at)),
        gauge(
            "resync_interval_seconds",
            "How often its sources are to be read.",
            lambda one: None if one.resync_ms is None else one.resync_ms / 1000,
        ),
        gauge("failures", "Failed passes in a row.", lambda one: one.failures),
        gauge("failing", "Its last pass failed: 1 or 0.", lambda one: one.failing),
        gauge("retry_timestamp_seconds", "When a failing one is tried again.", lambda one: _seconds(one.retry_at)),
        gauge("broken", "A configuration error ended it: 1 or 0.", lambda one: one.broken),
        gauge("running", "A pass runs: 1 or 0.", lambda one: one.running),
        gauge("sync_requests", "Syncs that were asked for and are not done.", lambda one: one.requests),
    ]


def _documents(found: Iterable[DocumentVitals]) -> list[Metric]:
    counts = GaugeMetricFamily(
        "knowledge_collection_documents", "Documents by status.", labels=["collection", "status"]
    )
    since: dict[str, float | None] = {}
    for one in found:
        for status, count in (("pending", one.pending), ("ready", one.ready), ("failed", one.failed)):
            counts.add_metric([one.name, status], count)
        since[one.name] = _seconds(one.pending_since)
    return [
        counts,
        _gauge(
            "collection_pending_since_timestamp_seconds",
            "When the document that waits longest was stored.",
            "collection",
            since,
        ),
    ]


def _gauge(name: str, what: str, label: str, values: Mapping[str, float | None]) -> Metric:
    """One gauge with one label; who has no value is left out."""
    family = GaugeMetricFamily(f"knowledge_{name}", what, labels=[label])
    for key, value in values.items():
        if value is not None:
            family.add_metric([key], value)
    return family


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
