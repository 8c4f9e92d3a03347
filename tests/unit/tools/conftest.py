"""A scripted backend: it answers from its attributes and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from knowledge_worker.domain.collection import Collection, CollectionKind, CollectionStatus, Generation, GenerationState
from knowledge_worker.domain.document import Document, DocumentStatus
from knowledge_worker.domain.match import Match, SearchResult
from knowledge_worker.errors import CollectionNotFoundError, DocumentNotFoundError
from knowledge_worker.tools import KnowledgeTools, knowledge_tools

SERVING = Generation(
    id=1, number=1, slot=0, model="m", dimensions=2, chunker="text-v1", state=GenerationState.SERVING
)  # fmt: skip


class FakeKnowledge:
    """Two trusted collections, ``handbook`` and ``faq``, and an untrusted one, ``tickets``."""

    def __init__(self) -> None:
        self.stored = {
            "handbook": collection("handbook"),
            "faq": collection("faq"),
            "tickets": collection("tickets", trusted=False, kind=CollectionKind.MANAGED),
        }
        self.declared: tuple[Any, ...] = ()
        self.documents: dict[tuple[str, str], Document] = {}
        self.found = SearchResult()
        self.error: Exception | None = None
        self.look_up_error: Exception | None = None
        self.searches: list[dict[str, Any]] = []
        self.reads: list[tuple[str, str]] = []

    def look_up(self, names: Iterable[str]) -> dict[str, Collection]:
        if self.look_up_error is not None:
            raise self.look_up_error
        return {name: self.stored[name] for name in names if name in self.stored}

    def collection(self, name: str) -> Collection:
        if name not in self.stored:
            raise CollectionNotFoundError(name)
        return self.stored[name]

    def search(self, query: str, **options: Any) -> SearchResult:
        self.searches.append({"query": query, **options})
        if self.error is not None:
            raise self.error
        return self.found

    def get_document(self, name: str, document_id: str) -> Document:
        self.reads.append((name, document_id))
        if self.error is not None:
            raise self.error
        if (name, document_id) not in self.documents:
            raise DocumentNotFoundError(name, document_id)
        return self.documents[name, document_id]

    def put(self, name: str, document_id: str, content: str, **changes: Any) -> None:
        values: dict[str, Any] = {
            "collection": name,
            "id": document_id,
            "title": None,
            "source": None,
            "metadata": {},
            "status": DocumentStatus.READY,
            "error": None,
            "warnings": (),
            "hash": "h",
            "content": content,
            "version": "v",
            "updated_at": datetime(2026, 1, 1, tzinfo=UTC),
        }
        self.documents[name, document_id] = Document(**{**values, **changes})

    def answers(self, *texts: str, collection: str = "handbook", trusted: bool = True, **more: Any) -> None:
        """Let every search find these passages."""
        self.found = SearchResult(
            matches=tuple(
                Match(
                    collection=collection,
                    document=f"d{number}.md",
                    index=0,
                    text=text,
                    score=0.5,
                    lines=(1, 2),
                    trusted=trusted,
                )
                for number, text in enumerate(texts, start=1)
            ),
            **more,
        )


def collection(name: str, **changes: Any) -> Collection:
    values: dict[str, Any] = {
        "key": 1,
        "name": name,
        "kind": CollectionKind.DECLARED,
        "title": None,
        "description": None,
        "stored_status": CollectionStatus.READY,
        "trusted": True,
        "model": "m",
        "declaration": "d",
        "resync_ms": None,
        "error": None,
        "failures": 0,
        "retry_at": None,
        "failed_at": None,
        "broken": False,
        "notice": None,
        "synced_at": None,
        "requested": 0,
        "done": 0,
        "running": None,
        "updated_at": datetime(2026, 1, 1, tzinfo=UTC),
        "serving": SERVING,
        "building": None,
    }
    return Collection(**{**values, **changes})


@pytest.fixture
def knowledge() -> FakeKnowledge:
    return FakeKnowledge()


@pytest.fixture
def make_tools(knowledge: FakeKnowledge) -> Callable[..., KnowledgeTools]:
    def make(*collections: str, **options: Any) -> KnowledgeTools:
        return knowledge_tools(knowledge, collections=collections or ("handbook", "faq"), **options)

    return make
