"""A source that hangs is given up, and nobody else notices."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from knowledge_worker import KnowledgeCollection, define_knowledge_source
from knowledge_worker.errors import SourceError
from knowledge_worker.sources import ahead

from .conftest import Documents, Make, ManualClock, run, started


class Hanging:
    """Yields a document, then waits until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def source(self) -> Any:
        def documents() -> Iterator[dict[str, str]]:
            yield {"id": "first", "content": "apples"}
            self.released.wait(120)
            yield {"id": "second", "content": "pears"}

        return define_knowledge_source(kind="hanging", documents=documents)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    monkeypatch.setattr(ahead, "CLOSING_S", 0.2)
    one = Hanging()
    yield one
    one.released.set()
    for thread in list(ahead._left_behind.values()):
        thread.join()


IMPATIENT = {"progress_timeout_ms": 1000, "lease_ms": 1500}


def test_the_pass_fails_and_says_so_and_the_next_one_begins_no_second_read(
    make: Make, hanging: Hanging, clock: ManualClock
) -> None:
    knowledge = started(make(hanging.source(), settings=IMPATIENT))
    assert run(knowledge).startswith("failed: Nothing moved for 1 s: a source or the provider hangs.")
    failed = knowledge.collection("docs")
    assert (failed.failures, failed.running) == (1, None)
    assert "KNOWLEDGE_PROGRESS_TIMEOUT_MS" in (failed.error or "")

    clock.advance(5)
    assert "An earlier read still hangs in this worker" in run(knowledge)

    hanging.released.set()
    ahead._left_behind["docs"].join()
    clock.advance(10)
    assert run(knowledge) == "ok"
    assert knowledge.collection("docs").documents.ready == 2


def test_a_plan_gives_up_too(make: Make, hanging: Hanging) -> None:
    knowledge = started(make(hanging.source(), settings=IMPATIENT))
    with pytest.raises(SourceError, match="a source hangs"):
        knowledge.plan("docs")


def test_a_slow_source_is_no_hanging_one(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge_worker.indexing.read.BATCH_MAX_S", 0.2)
    stored: list[int] = []

    def documents() -> Iterator[dict[str, str]]:
        for number in range(8):
            threading.Event().wait(0.4)
            stored.append(knowledge.collection("docs").documents.total)
            yield {"id": f"d{number}", "content": f"number {number}"}

    source = define_knowledge_source(kind="slow", documents=documents)
    knowledge = started(make(source, settings=IMPATIENT))
    assert run(knowledge) == "ok"
    assert 0 < stored[-1] < 8, "what came first is stored before the last one comes"


def test_a_pass_that_waits_for_its_source_stops_with_its_worker(make: Make, hanging: Hanging) -> None:
    knowledge = started(make(hanging.source()))
    stopper = threading.Timer(0.5, knowledge.request_stop)
    stopper.start()
    assert run(knowledge) == "cancelled"
    stopper.join()


def test_a_collection_beside_it_in_the_same_process_goes_on(make: Make, hanging: Hanging) -> None:
    docs = Documents(a="apples")
    knowledge = make(hanging.source())
    beside = knowledge.with_settings(
        knowledge.settings, KnowledgeCollection("beside", model=knowledge.declared[0].model, sources=[docs.source()])
    )
    started(beside)
    waiting = threading.Thread(target=run, args=(beside,))
    waiting.start()
    assert run(beside, "beside") == "ok"
    hanging.released.set()
    waiting.join()
    assert beside.collection("docs").documents.ready == 2
    beside.close()
