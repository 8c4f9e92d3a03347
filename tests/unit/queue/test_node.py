"""The thread that registers a worker node and keeps it alive."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from knowledge_worker import worker
from knowledge_worker.errors import ConfigurationError, KnowledgeError, ServiceUnavailableError
from knowledge_worker.worker import NodeKeeper


class FakeNode:
    """Fails its first calls, then answers; ``beats`` counts the heartbeats that arrived."""

    def __init__(self, failures: Sequence[Exception] = (), sick_beats: int = 0) -> None:
        self.failures = list(failures)
        self.sick_beats = sick_beats
        self.registered: list[list[str]] = []
        self.well = threading.Event()

    def node_started(self, queues: Sequence[str]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.registered.append(list(queues))

    def node_alive(self) -> None:
        if self.sick_beats:
            self.sick_beats -= 1
            raise ServiceUnavailableError("PostgreSQL does not answer.")
        self.well.set()

    def run_pass(self, name: str) -> str:
        return "ok"

    run_embed = run_pass

    def run_tick(self) -> str:
        return "ok"

    def node_stopped(self) -> None: ...

    def request_stop(self) -> None: ...


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "FIRST_RETRY_S", 0.01)


def keeper(node: FakeNode, refused: list[KnowledgeError] | None = None) -> NodeKeeper:
    refusals = refused if refused is not None else []
    return NodeKeeper(node, ("sync",), beat_ms=10, refused=refusals.append)


def test_a_node_registers_once_and_then_beats() -> None:
    node = FakeNode()
    kept = keeper(node)
    kept.start()
    assert node.well.wait(10)
    kept.stop(timeout_s=10)
    assert node.registered == [["sync"]]


def test_it_waits_for_a_database_that_does_not_answer_yet() -> None:
    node = FakeNode([ServiceUnavailableError("away"), RuntimeError("odd")])
    kept = keeper(node)
    kept.start()
    assert node.well.wait(10)
    kept.stop(timeout_s=10)
    assert node.registered == [["sync"]]


def test_a_failed_heartbeat_is_not_its_last() -> None:
    node = FakeNode(sick_beats=3)
    kept = keeper(node)
    kept.start()
    assert node.well.wait(10)
    kept.stop(timeout_s=10)


def test_a_wrong_configuration_is_refused_and_not_tried_again() -> None:
    refusals: list[KnowledgeError] = []
    node = FakeNode([ConfigurationError("declared name is managed")])
    kept = keeper(node, refusals)
    kept.start()
    kept.stop(timeout_s=10)
    assert [error.message for error in refusals] == ["declared name is managed"]
    assert node.registered == []


def test_another_name_of_the_module_is_still_missing() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        worker.nothing  # noqa: B018
