"""Searches while a collection is embedded anew or moves between tables: nothing is missed and nothing fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from knowledge_worker import Knowledge

from .conftest import Make, declared, indexed, made_texts, names

ZEBRAS = {f"z{n}": f"zebra stripes {n}" for n in range(5)}
TEXTS = made_texts(150) | ZEBRAS


@contextmanager
def searched(knowledge: Knowledge, mode: str) -> Iterator[None]:
    """Search all the time, also with a filter; the zebras must be the best five, always."""
    failures: list[BaseException] = []
    done = threading.Event()
    counted = 0

    def run() -> None:
        nonlocal counted
        try:
            while not done.is_set():
                for filters in (None, {"id_prefix": "z"}):
                    result = knowledge.search("zebra stripes", collections="docs", mode=mode, filters=filters)
                    assert sorted(names(result)) == sorted(ZEBRAS)
                counted += 1
        except BaseException as error:
            failures.append(error)

    def wait_for(count: int) -> None:
        until = time.monotonic() + 60
        while counted < count and not failures and time.monotonic() < until:
            time.sleep(0.01)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_for(2)
        yield
        wait_for(counted + 2)
    finally:
        done.set()
        thread.join()
    if failures:
        raise failures[0]
    assert counted >= 4


@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])
def test_a_collection_that_is_embedded_anew_in_an_own_table(make: Make, mode: str) -> None:
    before = indexed(make, declared("docs", TEXTS), own_table_chunks=50)
    after = make(declared("docs", TEXTS, model="fake/model-b"), own_table_chunks=50)
    with searched(before, mode):
        after.node_started(["sync"])
        assert after.run_pass("docs") == "ok"
    serving = after.collection("docs").serving
    assert serving is not None
    assert (serving.model, serving.storage) == ("fake/model-b", "own")


@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])
def test_a_collection_that_moves_to_its_own_table_and_back(make: Make, mode: str) -> None:
    knowledge = make(own_table_chunks=50, shared_table_chunks=20)
    knowledge.create_collection("docs")
    for name, text in ZEBRAS.items():
        knowledge.put_document("docs", name, text)
    assert knowledge.run_pass("docs") == "ok"
    others = list(made_texts(80).items())
    with searched(knowledge, mode):
        for name, text in others:
            knowledge.put_document("docs", name, text)
        assert knowledge.run_pass("docs") == "ok"
        assert storage(knowledge) == "own"
        for name, _ in others:
            knowledge.delete_document("docs", name)
        knowledge.sync("docs")
        assert knowledge.run_pass("docs") == "ok"
        assert storage(knowledge) == "shared"


def storage(knowledge: Knowledge) -> str:
    serving = knowledge.collection("docs").serving
    assert serving is not None
    return serving.storage
