"""A scripted front door and clients of the real application over it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from knowledge_worker._bundled import load_api
from knowledge_worker.config import Settings
from knowledge_worker.domain.collection import Collection, CollectionKind, CollectionStatus
from knowledge_worker.domain.document import Document, DocumentPage, DocumentStatus, PutResult, checked_document
from knowledge_worker.domain.match import SearchResult
from knowledge_worker.domain.names import collection_name
from knowledge_worker.domain.passes import PassRecord
from knowledge_worker.domain.plan import Plan
from knowledge_worker.errors import CollectionNotFoundError, InvalidInputError, KnowledgeError
from knowledge_worker.search.request import checked_request
from knowledge_worker.telemetry.observers import NoObserver

create_app = load_api().create_app

READER = "reader-token-0123456789"
WRITER = "writer-token-0123456789"
NOBODY = "nobody-token-0123456789"
TOKENS = [
    {"value": READER, "id": "reader", "permissions": ["knowledge:read"]},
    {"value": WRITER, "id": "writer", "permissions": ["knowledge:*"]},
    {"value": NOBODY, "id": "nobody", "permissions": ["knowledge"]},
]

HOOK_SECRET = "hook-secret-0123456789"
HOOKS = {
    "docs-push": {"secret": HOOK_SECRET, "collections": ["handbook"]},
    "two": {"secret": HOOK_SECRET, "collections": ["absent", "handbook"]},
}


PLAN = Plan(
    collection="handbook", model="local/m", reembeds=False, read=3, added=1, changed=1, unchanged=1, deleted=2,
    skipped=0,
    deletes_held_back=False, documents=2, passages=4, tokens=99, price=None,
)  # fmt: skip


DOCUMENT = Document(
    collection="handbook", id="setup.md", title=None, source=None, metadata={}, status=DocumentStatus.READY,
    error=None, warnings=(), hash="0" * 64, content="Run it.", version="0123456789abcdef",
    updated_at=datetime(2025, 1, 31, 12, tzinfo=UTC),
)  # fmt: skip

PUT = PutResult(
    id="setup.md", status=DocumentStatus.PENDING, accepted=True, created=True, version="0123456789abcdef",
    updated_at=datetime(2025, 1, 31, 12, tzinfo=UTC),
)  # fmt: skip


class FakeKnowledge:
    """Answers from its attributes, remembers what it was asked, raises ``error`` when one is set."""

    observer = NoObserver()

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**{"tokens": json.dumps(TOKENS), "hooks": json.dumps(HOOKS), **settings})
        self.stored: dict[str, Collection] = {}
        self.records: list[PassRecord] = []
        self.found = SearchResult()
        self.problems: list[str] = []
        self.worries: list[str] = []
        self.error: Exception | None = None
        self.asked: list[tuple[Any, ...]] = []

    def collections(self) -> list[Collection]:
        self._note("collections")
        return list(self.stored.values())

    def collection(self, name: str) -> Collection:
        self._note("collection", name)
        if name not in self.stored:
            raise CollectionNotFoundError(name)
        return self.stored[name]

    def sync(self, name: str, *, force: bool = False, confirm_deletes: bool = False) -> int:
        self._note("sync", name, force, confirm_deletes)
        if name not in self.stored:
            raise CollectionNotFoundError(name)
        return 1

    def passes(self, name: str, *, limit: int = 20) -> list[PassRecord]:
        self._note("passes", name, limit)
        if name not in self.stored:
            raise CollectionNotFoundError(name)
        return self.records[:limit]

    def plan(self, name: str) -> Plan:
        self._note("plan", name)
        if name not in self.stored:
            raise CollectionNotFoundError(name)
        return PLAN

    def search(self, query: str, **asked: Any) -> SearchResult:
        """Notes what differs from a search for the query alone."""
        checked_request(query, **asked)
        usual = {"collections": None, "top_k": 5, "min_score": None, "mode": None, "filters": None}
        usual |= {"per_document": 3, "explain": False}
        self._note("search", query, {name: value for name, value in asked.items() if value != usual[name]})
        return self.found

    def create_collection(self, name: Any, **options: Any) -> Collection:
        self._note("create_collection", name, options)
        return self.stored["handbook"].model_copy(update={"name": collection_name(name)})

    def delete_collection(self, name: str) -> None:
        self._note("delete_collection", name)

    def get_document(self, collection: str, identifier: str) -> Document:
        self._note("get_document", collection, identifier)
        return DOCUMENT.model_copy(update={"collection": collection, "id": identifier})

    def list_documents(self, collection: str, **asked: Any) -> DocumentPage:
        self._note("list_documents", collection, asked)
        return DocumentPage(documents=(), total=0, limit=asked["limit"], offset=asked["offset"])

    def put_document(self, collection: str, identifier: str, content: str, **options: Any) -> PutResult:
        self._note("put_document", collection, identifier, content, options)
        return PUT.model_copy(update={"id": identifier})

    def put_documents(self, collection: str, documents: Any) -> Iterator[PutResult | KnowledgeError]:
        """Takes what is valid; the whole group is noted."""
        given = list(documents)
        self._note("put_documents", collection, given)
        return iter([self._put(one) for one in given])

    def delete_document(self, collection: str, identifier: str, **options: Any) -> None:
        self._note("delete_document", collection, identifier)

    def readiness(self) -> list[str]:
        self._note("readiness")
        return self.problems

    def warnings(self) -> list[str]:
        return self.worries

    def metrics(self) -> bytes:
        self._note("metrics")
        return b"knowledge_up 1\n"

    def _put(self, document: dict[str, Any]) -> PutResult | KnowledgeError:
        try:
            return PUT.model_copy(update={"id": checked_document(document, content_min_chars=1).id})
        except InvalidInputError as error:
            return error

    def _note(self, *call: Any) -> None:
        self.asked.append(call)
        if self.error is not None:
            raise self.error


@pytest.fixture
def a_collection() -> Callable[..., Collection]:
    """Makes a collection that was never indexed; keyword arguments change it."""

    def make(name: str = "handbook", **changes: Any) -> Collection:
        values: dict[str, Any] = {
            "key": 1,
            "name": name,
            "kind": CollectionKind.DECLARED,
            "title": None,
            "description": None,
            "stored_status": CollectionStatus.READY,
            "trusted": True,
            "model": "local/next",
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
            "updated_at": datetime(2025, 1, 31, 12, tzinfo=UTC),
            "serving": None,
            "building": None,
        }
        return Collection(**{**values, **changes})

    return make


@pytest.fixture(scope="session")
def shared() -> tuple[FakeKnowledge, Any]:
    """One front door and its application for all tests, since building one takes longer than a test does."""
    fake = FakeKnowledge()
    return fake, create_app(fake)


@pytest.fixture
def knowledge(shared: tuple[FakeKnowledge, Any], a_collection: Callable[..., Collection]) -> FakeKnowledge:
    shared[0].__init__()
    shared[0].stored["handbook"] = a_collection()
    return shared[0]


@pytest.fixture
def make_knowledge() -> type[FakeKnowledge]:
    return FakeKnowledge


@pytest.fixture
def app(shared: tuple[FakeKnowledge, Any], knowledge: FakeKnowledge) -> Any:
    return shared[1]


@pytest.fixture
def client(app: Any) -> TestClient:
    """Without a token."""
    return TestClient(app)


@pytest.fixture
def reader(app: Any) -> TestClient:
    """With a token that may read."""
    return TestClient(app, headers={"Authorization": f"Bearer {READER}"})


@pytest.fixture
def writer(app: Any) -> TestClient:
    """With a token that may do everything below ``/knowledge``."""
    return TestClient(app, headers={"Authorization": f"Bearer {WRITER}"})


@pytest.fixture
def hook_secret() -> bytes:
    return HOOK_SECRET.encode()


@pytest.fixture
def nobody(app: Any) -> TestClient:
    """With a known token whose permission covers nothing here."""
    return TestClient(app, headers={"Authorization": f"Bearer {NOBODY}"})
