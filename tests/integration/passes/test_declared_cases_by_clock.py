"""Declared collections where time or the sources decide: cases 3, 5, 9, 12 and 16 of the specification."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from knowledge_worker import define_knowledge_source, folder
from knowledge_worker.domain.passes import PassOutcome
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Documents, Make, ManualClock, run, started, texts


def test_the_sources_are_read_once_an_interval_however_many_workers_run(make: Make, clock: ManualClock) -> None:
    begun: list[float] = []
    start = clock.now

    def documents() -> Iterator[dict[str, str]]:
        begun.append((clock.now - start).total_seconds())
        yield {"id": "a", "content": "apples"}
        clock.advance(10)  # what the pass takes
        yield {"id": "b", "content": "bananas"}

    source = define_knowledge_source(kind="slow", documents=documents)
    workers = [started(make(source, resync_ms=60_000)) for _ in range(3)]
    run(workers[0])
    ended = clock.now

    while (clock.now - ended) < timedelta(minutes=7):
        for worker in workers:
            worker.run_tick()
            run(worker)
        clock.advance(5)

    assert begun == [0, 70, 140, 210, 280, 350, 420]
    assert {one.outcome for one in workers[0].passes("docs")} == {PassOutcome.OK}


def test_a_call_that_hangs_is_given_up_and_the_backoff_starts(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    knowledge = started(make(Documents(a="apples").source(), settings={"embed_timeout_ms": 300}))
    provider.script(Rule(hold=True, times=1))

    assert run(knowledge) == 'failed: Embedding provider "fake" did not answer within 0.3 s.'

    collection = knowledge.collection("docs")
    assert collection.retry_at == clock.now + timedelta(seconds=5)
    assert (collection.failures, collection.documents.pending, collection.running) == (1, 1, None)
    assert run(knowledge) == "nothing due"
    assert len(provider.requests) == 1, "no client of its own tries again"
    clock.advance(5)
    assert run(knowledge) == "ok"


def test_one_changed_file_among_a_thousand_is_sent_alone(
    make: Make, provider: ScriptedProvider, tmp_path: Path
) -> None:
    for n in range(1000):
        (tmp_path / f"d{n:04}.md").write_text(f"text number {n}")
    knowledge = started(make(folder(tmp_path)))
    assert run(knowledge) == "ok"
    calls = len(provider.requests)
    (tmp_path / "d0500.md").write_text("other words")

    knowledge.sync("docs")
    assert run(knowledge) == "ok"

    assert [request.texts for request in provider.requests[calls:]] == [("other words",)]


def test_entries_of_a_folder_that_cannot_be_documents_disappear_and_are_reported(make: Make, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("outside of the folder")
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("kept", "large", "latin", "link", "pipe"):
        (docs / f"{name}.md").write_text(f"words of {name}")
    knowledge = started(make(folder(docs)))
    run(knowledge)
    assert len(knowledge.search("words").matches) == 5

    (docs / "large.md").write_text("x" * 1_048_577)
    (docs / "latin.md").write_bytes("wörter".encode("latin-1"))
    (docs / "link.md").unlink()
    (docs / "link.md").symlink_to(outside)
    (docs / "pipe.md").unlink()
    os.mkfifo(docs / "pipe.md")
    knowledge.sync("docs")
    assert run(knowledge) == "ok"

    assert texts(knowledge.search("words")) == ["words of kept"]
    record = knowledge.passes("docs")[0]
    assert (record.counts.deleted, record.counts.skipped) == (4, 4)
    assert sorted(report.split(":")[0] for report in record.reports) == ["large.md", "latin.md", "link.md", "pipe.md"]


def test_documents_of_a_subdirectory_that_cannot_be_listed_stay(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").write_text("words below")
    (tmp_path / "b.md").write_text("words above")
    (tmp_path / "c.md").write_text("words to be deleted")
    knowledge = started(make(folder(tmp_path)))
    run(knowledge)
    (tmp_path / "c.md").unlink()
    scandir = os.scandir

    def refused(path: Any = ".") -> Any:
        # Whoever runs the tests may be allowed everything, so the system's refusal is played.
        if isinstance(path, int) and os.path.samestat(os.fstat(path), (tmp_path / "sub").stat()):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    knowledge.sync("docs")
    assert run(knowledge) == "incomplete"
    assert sorted(texts(knowledge.search("words"))) == ["words above", "words below", "words to be deleted"]
    assert "sub" in knowledge.passes("docs")[0].reasons[0]
    monkeypatch.undo()
    knowledge.sync("docs")
    assert run(knowledge) == "ok"
    assert sorted(texts(knowledge.search("words"))) == ["words above", "words below"]


def test_a_holder_whose_renewals_are_blocked_loses_the_collection_and_writes_nothing(
    make: Make, provider: ScriptedProvider, clock: ManualClock, locks: MemoryLocks
) -> None:
    docs = Documents(a="apples", b="bananas")
    first, second = started(make(docs.source())), started(make(docs.source()))
    provider.script(Rule(hold=True, times=1))
    outcomes: list[str] = []
    holder = threading.Thread(target=lambda: outcomes.append(run(first)))
    holder.start()
    try:
        provider.wait_for_requests(1)
        # The timer that renews goes by another clock, so this is as if it did not get through.
        clock.advance(301)
        locks.forget()
        second.run_tick()
        clock.advance(5)
        assert run(second) == "ok"
    finally:
        provider.release()
        holder.join()

    assert outcomes == ["lease lost"]
    assert [one.outcome for one in second.passes("docs")] == [PassOutcome.OK, PassOutcome.FAILED]
    assert second.collection("docs").error is None
    assert sorted(texts(second.search("apples"))) == ["apples", "bananas"]
