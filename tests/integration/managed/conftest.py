"""Processes that share a database: each is a Knowledge with a default model of its own choosing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from knowledge_worker import Knowledge, KnowledgeCollection
from knowledge_worker.config import Settings
from knowledge_worker.embedding.openai import OpenAIModel
from knowledge_worker.embedding.resolver import Models
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.ports import EmbeddingModel, ModelResolver
from knowledge_worker.queue.inline import InlineQueue
from knowledge_worker.testing.provider import ScriptedProvider


class Providers(ModelResolver):
    """Resolves ``fake/<model>`` to the scripted provider, unless the model is among those that are gone."""

    def __init__(self, base_url: str) -> None:
        self._models = Models(providers={}, quota_retry_ms=1)
        self._base_url = base_url
        self._made: dict[str, OpenAIModel] = {}
        self.gone: set[str] = set()

    def resolve(self, name: str) -> EmbeddingModel:
        if name in self.gone or not name.startswith("fake/"):
            return self._models.resolve(name)
        if name not in self._made:
            model = name.removeprefix("fake/")
            self._made[name] = OpenAIModel(provider="fake", model=model, base_url=self._base_url, key="test-key")
        return self._made[name]

    def close(self) -> None:
        for model in self._made.values():
            model.close()


Make = Callable[..., Knowledge]


@pytest.fixture
def providers(provider: ScriptedProvider) -> Iterator[Providers]:
    providers = Providers(provider.base_url)
    yield providers
    providers.close()


@pytest.fixture
def make(database_url: str, providers: Providers) -> Iterator[Make]:
    """Make the Knowledge of one process; all of a test share database, locks and provider."""
    made: list[Knowledge] = []
    locks = MemoryLocks()

    def build(*declared: KnowledgeCollection, model: str | None = "fake/model-a", **settings: Any) -> Knowledge:
        knowledge = Knowledge(
            declared,
            settings=Settings(database_url=database_url, model=model, **settings),
            locks=locks,
            queue=InlineQueue(),
            models=providers,
        )
        made.append(knowledge)
        return knowledge

    yield build
    for part in made:
        part.close()


@pytest.fixture
def filled(make: Make) -> Knowledge:
    """A process with a managed collection ``notes`` that went through its first, empty pass."""
    knowledge = make()
    knowledge.create_collection("notes")
    assert knowledge.run_pass("notes") == "ok"
    return knowledge


def found(knowledge: Knowledge, query: str, name: str = "notes", top_k: int = 20) -> dict[str, str]:
    """Document → passage, of all that is found."""
    return {match.document: match.text for match in knowledge.search(query, collections=name, top_k=top_k).matches}
