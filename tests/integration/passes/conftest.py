"""Knowledge in this process on a real database, with a queue that only remembers and a scripted provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from knowledge_worker import Knowledge, KnowledgeCollection, KnowledgeSource, SearchResult, define_knowledge_source
from knowledge_worker.config import Settings
from knowledge_worker.embedding.openai import OpenAIModel
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.queue.inline import InlineQueue
from knowledge_worker.testing.provider import ScriptedProvider


class ManualClock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Documents:
    """A source whose documents a test changes."""

    def __init__(self, **contents: str) -> None:
        self.contents: dict[str, Any] = dict(contents)
        self.reads = 0
        self.incomplete: str | None = None
        self.error: Exception | None = None

    def source(self, kind: str = "custom", *, trusted: bool = True) -> KnowledgeSource:
        def documents(context: Any) -> Iterator[dict[str, Any]]:
            self.reads += 1
            if self.error is not None:
                raise self.error
            for identifier, content in list(self.contents.items()):
                yield content if isinstance(content, dict) else {"id": identifier, "content": content}
            if self.incomplete is not None:
                context.incomplete(self.incomplete)

        return define_knowledge_source(kind=kind, trusted=trusted, documents=documents)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def locks() -> MemoryLocks:
    return MemoryLocks()


Make = Callable[..., Knowledge]


@pytest.fixture
def make(database_url: str, provider: ScriptedProvider, clock: ManualClock, locks: MemoryLocks) -> Iterator[Make]:
    """Make the Knowledge of one process; all of a test share database, locks and clock."""
    made: list[Knowledge] = []
    models: list[OpenAIModel] = []

    def build(*sources: KnowledgeSource, name: str = "docs", model: str = "model-a", **options: Any) -> Knowledge:
        settings = Settings(database_url=database_url, **options.pop("settings", {}))
        models.append(OpenAIModel(provider="fake", model=model, base_url=provider.base_url, key="test-key"))
        declared = [KnowledgeCollection(name, model=models[-1], sources=sources, **options)]
        knowledge = Knowledge(declared, settings=settings, locks=locks, queue=InlineQueue(), clock=clock)
        made.append(knowledge)
        return knowledge

    yield build
    for part in (*made, *models):
        part.close()


def started(knowledge: Knowledge) -> Knowledge:
    """The same, after its worker node has started."""
    knowledge.node_started(["sync"])
    return knowledge


def run(knowledge: Knowledge, name: str = "docs") -> str:
    """Run a pass if one is due."""
    return knowledge.run_pass(name)


def texts(result: SearchResult) -> list[str]:
    """The passages of a result, best first."""
    return [match.text for match in result.matches]
