"""The command line in this process, over a Knowledge that only remembers."""

from __future__ import annotations

import io
import logging
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from knowledge_worker.cli import cli
from knowledge_worker.cli.running import run
from knowledge_worker.config import Settings
from knowledge_worker.domain.collection import (
    Collection,
    CollectionKind,
    CollectionStatus,
    DocumentCounts,
    Generation,
    GenerationState,
)
from knowledge_worker.domain.document import FailedDocument
from knowledge_worker.domain.match import SearchResult
from knowledge_worker.domain.passes import PassCounts, PassOutcome, PassRecord, PassTrigger
from knowledge_worker.errors import CollectionNotFoundError

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def collection(name: str = "handbook", **values: Any) -> Collection:
    """A ready collection of three documents."""
    generation = Generation(
        id=1,
        number=1,
        slot=0,
        model="local/test",
        dimensions=4,
        chunker="text-v1",
        state=GenerationState.SERVING,
    )
    plain: dict[str, Any] = {
        "key": 1,
        "name": name,
        "kind": CollectionKind.DECLARED,
        "title": None,
        "description": None,
        "stored_status": CollectionStatus.READY,
        "trusted": True,
        "model": "local/test",
        "declaration": "abc",
        "resync_ms": None,
        "error": None,
        "failures": 0,
        "retry_at": None,
        "failed_at": None,
        "broken": False,
        "notice": None,
        "synced_at": NOW,
        "requested": 1,
        "done": 1,
        "running": None,
        "updated_at": NOW,
        "serving": generation,
        "building": None,
        "documents": DocumentCounts(ready=3),
        "chunks": 12,
    }
    return Collection(**{**plain, **values})


def pass_record(**values: Any) -> PassRecord:
    """A pass that went well."""
    plain: dict[str, Any] = {
        "id": 7,
        "collection": "handbook",
        "trigger": PassTrigger.REQUEST,
        "outcome": PassOutcome.OK,
        "started_at": NOW,
        "ended_at": NOW,
        "worker": "host:1:abc",
        "counts": PassCounts(read=3, added=3, embedded=12, calls=1),
        "error": None,
    }
    return PassRecord(**{**plain, **values})


class FakeKnowledge:
    """Answers what a test put in; remembers what it was asked."""

    def __init__(self) -> None:
        self.stored = [collection()]
        self.missing: list[str] = []
        self.worries: list[str] = []
        self.records = [pass_record()]
        self.failed: list[FailedDocument] = []
        self.result = SearchResult()
        self.problems: list[str] = []
        self.error: BaseException | None = None
        self.asked: list[tuple[Any, ...]] = []
        self.settings: Settings | None = None
        self.closed = False

    def _asked(self, *what: Any) -> None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error

    def collections(self) -> list[Collection]:
        self._asked("collections")
        return self.stored

    def collection(self, name: str) -> Collection:
        return next(one for one in self.stored if one.name == name)

    def sync(self, name: str, *, force: bool = False, confirm_deletes: bool = False) -> int:
        self._asked("sync", name, force, confirm_deletes)
        return 2

    def wait(self, name: str, request: int, *, timeout_ms: int | None, on_progress: Any) -> Collection:
        self._asked("wait", name, request, timeout_ms)
        return self.stored[0]

    def readiness(self, *, patient: bool = True) -> list[str]:
        assert not patient, "a command that just started judges the last tick as it is"
        return self.missing

    def warnings(self) -> list[str]:
        return self.worries

    def passes(self, name: str, *, limit: int = 20) -> list[PassRecord]:
        self._asked("passes", name, limit)
        if name not in [one.name for one in self.stored]:
            raise CollectionNotFoundError(name)
        return self.records

    def failed_documents(self, name: str, *, limit: int = 20) -> list[FailedDocument]:
        self._asked("failed_documents", name, limit)
        return self.failed

    def search(self, query: str, **options: Any) -> SearchResult:
        self._asked("search", query, options)
        return self.result

    def check(self, *, servers: bool = True) -> list[str]:
        self._asked("check", servers)
        return self.problems

    def migrate(self) -> str:
        self._asked("migrate")
        return "0001"

    def close(self) -> None:
        self.closed = True


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def knowledge(monkeypatch: pytest.MonkeyPatch) -> FakeKnowledge:
    """What the commands get instead of the real one."""
    fake = FakeKnowledge()

    def load(settings: Settings) -> FakeKnowledge:
        fake.settings = settings
        return fake

    module = types.ModuleType("knowledge_worker.loading")
    module.load_knowledge = load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "knowledge_worker.loading", module)
    return fake


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Ended]]:
    """Run a command as a user does; addresses are set, and nothing is connected to."""
    for name in list(os.environ):
        if name.startswith("KNOWLEDGE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KNOWLEDGE_DATABASE_URL", "postgresql://localhost/none")
    monkeypatch.setenv("KNOWLEDGE_REDIS_URL", "redis://localhost:1")
    monkeypatch.chdir(tmp_path)

    def run_here(*argv: str, terminal: bool = False) -> Ended:
        out, err = (Terminal(), io.StringIO()) if terminal else (io.StringIO(), io.StringIO())
        with pytest.MonkeyPatch.context() as streams:
            streams.setattr(sys, "stdout", out)
            streams.setattr(sys, "stderr", err)
            code = run(cli, argv)
        return Ended(code, out.getvalue(), err.getvalue())

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield run_here
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
