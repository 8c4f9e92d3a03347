"""Nudges: what happens when there is no broker, and the queue that only remembers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from knowledge_worker.config import load_settings
from knowledge_worker.errors import ServiceUnavailableError
from knowledge_worker.queue.celery import REST_S, WARN_EVERY_S, CeleryQueue, consumers, create_celery
from knowledge_worker.queue.inline import InlineQueue


@pytest.fixture
def nowhere() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"redis://127.0.0.1:{probe.getsockname()[1]}/0"


class HandClock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def queue(nowhere: str, clock: HandClock) -> Iterator[CeleryQueue]:
    queue = CeleryQueue(create_celery(load_settings(redis_url=nowhere)), nowhere, now_s=clock)
    yield queue
    queue.close()


def test_without_a_broker_a_nudge_is_false_and_never_raises(queue: CeleryQueue) -> None:
    assert queue.nudge_sync("handbook") is False
    assert queue.nudge_embed("handbook", helpers=3) is False


def test_one_warning_says_that_nudges_are_not_sent(queue: CeleryQueue, clock: HandClock) -> None:
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            queue.nudge_sync("handbook")
            clock.now_s += REST_S
    assert [(line["event"], line["collection"]) for line in lines] == [("nudge_not_sent", "handbook")]
    clock.now_s += WARN_EVERY_S
    with structlog.testing.capture_logs() as later:
        queue.nudge_sync("handbook")
    assert len(later) == 1


def test_after_a_failure_the_broker_is_left_alone_for_a_while(
    queue: CeleryQueue, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def ping(**_: Any) -> bool:
        tries.append("ping")
        raise OSError("away")

    monkeypatch.setattr(queue._probe, "ping", ping)
    queue.nudge_sync("handbook")
    clock.now_s += REST_S / 2
    queue.nudge_sync("handbook")
    assert len(tries) == 1
    clock.now_s += REST_S
    queue.nudge_sync("handbook")
    assert len(tries) == 2


def test_calling_no_helpers_asks_nobody(queue: CeleryQueue) -> None:
    assert queue.nudge_embed("handbook", helpers=0) is True


def test_a_queue_that_is_closed_leaves_another_one_of_the_same_process_alone(nowhere: str) -> None:
    queues = [CeleryQueue(create_celery(load_settings(redis_url=nowhere)), nowhere) for _ in range(2)]
    queues[0].close()
    with queues[1]._producers.acquire(block=True, timeout=1) as producer:
        assert producer is not None
    queues[1].close()


def test_consumers_cannot_be_told_without_a_broker(nowhere: str) -> None:
    with pytest.raises(ServiceUnavailableError):
        consumers(create_celery(load_settings(redis_url=nowhere)), timeout=0.1)


def test_the_inline_queue_remembers_nudges_in_order() -> None:
    queue = InlineQueue()
    assert queue.nudge_sync("a")
    assert queue.nudge_sync("b")
    assert queue.nudge_embed("a", helpers=2)
    assert queue.take_synced() == ["a", "b"]
    assert queue.take_synced() == []
    assert queue.embedded == [("a", 2)]


def test_the_inline_queue_can_be_away() -> None:
    queue = InlineQueue()
    queue.away = True
    assert queue.nudge_sync("a") is False
    assert queue.nudge_embed("a", helpers=1) is False
    assert queue.take_synced() == []
