"""The state of the deployment as gauges: what is shown, kept for a moment, and said of what cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from knowledge_worker.domain.vitals import CollectionVitals, DocumentVitals, Pulse
from knowledge_worker.errors import ServiceUnavailableError
from knowledge_worker.telemetry.names import OTHERS
from knowledge_worker.telemetry.state import KEPT_S, StateCollector

AT = datetime(2026, 1, 2, tzinfo=UTC)


class Health:
    """Answers what a test put in; remembers how often it was asked, and with which bound."""

    def __init__(self) -> None:
        self.looks: list[tuple[int, str]] = []
        self.ticked_at: datetime | None = AT
        self.counts_take_too_long = False

    def pulse(self, *, alive_ms: int) -> Pulse:
        return Pulse(tick_age_ms=5, ticked_at=self.ticked_at, stuck_claims=3, workers=2)

    def collections(self, *, most: int, others: str) -> list[CollectionVitals]:
        self.looks.append((most, others))
        calm = {"synced_at": None, "resync_ms": None, "retry_at": None, "failures": 0, "failing": 0, "broken": 0}
        failing = {**calm, "synced_at": AT, "resync_ms": 60_000, "retry_at": AT, "failures": 4, "failing": 1}
        return [
            CollectionVitals(name="docs", collections=1, running=0, requests=1, **failing),
            CollectionVitals(name=OTHERS, collections=7, running=2, requests=0, **calm),
        ]

    def documents(self, *, most: int, others: str) -> list[DocumentVitals]:
        if self.counts_take_too_long:
            raise ServiceUnavailableError("PostgreSQL does not answer: canceling statement due to statement timeout")
        return [DocumentVitals(name="docs", pending=1, ready=2, failed=3, pending_since=AT)]

    def passages(self, *, most: int, others: str) -> dict[str, int]:
        return {"docs": 9}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def shown(health: Health, clock: Clock, consumers: Callable[[], Mapping[str, int]] = dict) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(
        StateCollector(
            health,
            collections_max=10,
            alive_ms=1000,
            queue_lengths=lambda: {"sync": 5},
            queue_consumers=consumers,
            now_s=clock,
        )
    )
    return registry


def value(registry: CollectorRegistry, name: str, **labels: Any) -> float | None:
    return registry.get_sample_value(f"knowledge_{name}", labels)


def test_what_is_known_is_shown_and_what_is_not_is_absent(health: Health, clock: Clock) -> None:
    registry = shown(health, clock)
    assert health.looks == [], "to register is not to look"
    assert value(registry, "collections") == 8
    assert value(registry, "collection_synced_timestamp_seconds", collection="docs") == AT.timestamp()
    assert value(registry, "collection_resync_interval_seconds", collection="docs") == 60
    assert value(registry, "collection_retry_timestamp_seconds", collection="docs") == AT.timestamp()
    assert value(registry, "collection_failures", collection="docs") == 4
    assert value(registry, "collection_documents", collection="docs", status="failed") == 3
    assert value(registry, "collection_passages", collection="docs") == 9
    assert value(registry, "collection_pending_since_timestamp_seconds", collection="docs") == AT.timestamp()
    assert value(registry, "collection_running", collection=OTHERS) == 2
    for name in ("synced_timestamp", "resync_interval", "retry_timestamp"):
        assert value(registry, f"collection_{name}_seconds", collection=OTHERS) is None
    assert value(registry, "queue_messages", queue="sync") == 5
    assert value(registry, "last_tick_timestamp_seconds") == AT.timestamp()
    assert (value(registry, "stuck_claims"), value(registry, "workers")) == (3, 2)
    assert health.looks[0] == (10, OTHERS)


def test_before_the_first_tick_there_is_no_time_of_one(health: Health, clock: Clock) -> None:
    health.ticked_at = None
    assert value(shown(health, clock), "last_tick_timestamp_seconds") is None


def test_whoever_asks_often_does_not_load_the_servers(health: Health, clock: Clock) -> None:
    registry = shown(health, clock)
    for _ in range(5):
        value(registry, "collections")
    assert len(health.looks) == 1
    clock.now += KEPT_S
    value(registry, "collections")
    assert len(health.looks) == 2


def test_a_part_that_cannot_be_read_says_so_and_leaves_the_others(health: Health, clock: Clock) -> None:
    def no_broker() -> Mapping[str, int]:
        raise ServiceUnavailableError("Redis does not answer.")

    health.counts_take_too_long = True
    registry = shown(health, clock, no_broker)
    success = {
        part: value(registry, "state_read_success", part=part)
        for part in ("pulse", "collections", "documents", "passages", "queues", "consumers")
    }
    assert success == {"pulse": 1, "collections": 1, "documents": 0, "passages": 1, "queues": 1, "consumers": 0}
    assert value(registry, "collection_documents", collection="docs", status="ready") is None
    assert value(registry, "collection_failing", collection="docs") == 1
