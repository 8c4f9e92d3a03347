"""The soak for some seconds, and its oracle: it notices what it is there for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from knowledge_worker import Knowledge
from knowledge_worker.config import Settings
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.queue.inline import InlineQueue
from knowledge_worker.testing.provider import ScriptedProvider

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.processes


def test_everything_promised_is_there_after_some_seconds_of_trouble(tmp_path: Path) -> None:
    arguments = ["--minutes", "0.4", "--seed", "7", "--every", "1.5", "--workers", "2", "--json"]
    ended = subprocess.run(
        [sys.executable, str(BENCHMARKS / "soak.py"), *arguments, "--logs", str(tmp_path / "logs")],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    report = json.loads(ended.stdout)
    assert report["problems"] == []
    assert report["documents"]["ready"] > 50
    assert sum(report["disturbances"].values()) >= 5
    assert report["passes"]["ok"] > 10


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from soaking import verdict

    return verdict


@pytest.fixture
def promised(database_url: str, provider: ScriptedProvider, tmp_path: Path, verdict: Any) -> Iterator[Any]:
    """One document of a managed collection, indexed as promised."""
    settings = Settings(database_url=database_url, model="one/m", providers={"one": {"base_url": provider.base_url}})
    for name in verdict.DECLARED:
        (tmp_path / name).mkdir()
    truth = verdict.Truth(tmp_path)
    knowledge = Knowledge(settings=settings, locks=MemoryLocks(), queue=InlineQueue())
    knowledge.create_collection("notes-0")
    truth.managed["notes-0", "a"] = "a says number 1"
    knowledge.put_document("notes-0", "a", "a says number 1")
    assert knowledge.run_pass("notes-0") == "ok"
    yield truth
    knowledge.close()


LOSSES = {
    "a document": "delete from documents",
    "its passages": "delete from chunks",
    "an older passage": "update chunks set text = 'a says number 0'",
    "a stuck document": "update documents set status = 'pending'",
    "a request": "update collections set sync_requested = sync_requested + 1",
    "two passes at once": "insert into passes (collection_id, trigger, started_at, worker, outcome) "
    "select collection_id, trigger, started_at, worker, 'ok' from passes",
}


def test_what_is_as_promised_is_no_problem(promised: Any, verdict: Any, database_url: str) -> None:
    verdict.compare(database_url, promised)
    verdict.compare_passes(database_url, promised)
    assert promised.problems == []


@pytest.mark.parametrize("loss", LOSSES)
def test_the_oracle_notices(promised: Any, verdict: Any, database_url: str, loss: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(LOSSES[loss])  # type: ignore[call-overload]
    verdict.compare(database_url, promised)
    verdict.compare_passes(database_url, promised)
    assert promised.problems


def test_the_oracle_notices_what_nobody_promised(promised: Any, verdict: Any, database_url: str) -> None:
    promised.managed["notes-0", "a"] = None
    verdict.compare(database_url, promised)
    assert promised.problems


def test_the_oracle_notices_what_was_paid_for_twice(
    promised: Any, verdict: Any, provider: ScriptedProvider, embed_again: Callable[[], None]
) -> None:
    verdict.cost([provider], promised)
    assert promised.problems == []
    embed_again()
    verdict.cost([provider], promised)
    assert promised.problems


@pytest.fixture
def embed_again(provider: ScriptedProvider) -> Iterator[Callable[[], None]]:
    from knowledge_worker.embedding.openai import OpenAIModel

    model = OpenAIModel(provider="one", model="m", base_url=provider.base_url, key=None)
    yield lambda: model.embed(["a says number 1"], purpose="document", timeout_ms=5000) and None  # type: ignore[return-value]
    model.close()
