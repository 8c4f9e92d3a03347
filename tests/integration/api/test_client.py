"""Both Python clients against the real service: a server, a database and a worker that takes up nudges."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast
from urllib.parse import unquote_to_bytes

import anyio
import httpx
import pytest
import uvicorn
from anyio.from_thread import start_blocking_portal

from knowledge_worker import Knowledge, KnowledgeCollection, create_app, define_knowledge_source
from knowledge_worker.client import AsyncKnowledgeClient, KnowledgeClient
from knowledge_worker.config import Settings
from knowledge_worker.embedding.openai import OpenAIModel
from knowledge_worker.errors import (
    CollectionDeclaredError,
    CollectionExistsError,
    CollectionNotFoundError,
    CollectionNotManagedError,
    CollectionNotReadyError,
    DocumentNotFoundError,
    EmbeddingError,
    InvalidInputError,
    PermissionDeniedError,
    PreconditionFailedError,
    ServiceUnavailableError,
    UnauthenticatedError,
)
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.queue.inline import InlineQueue
from knowledge_worker.testing.provider import Rule, ScriptedProvider

WRITER = "a-writing-token-0123456789"
READER = "a-reading-token-0123456789"
TOKENS = [
    {"value": WRITER, "id": "writer", "permissions": ["knowledge:*"]},
    {"value": READER, "id": "reader", "permissions": ["knowledge:read"]},
]

Connect = Callable[..., KnowledgeClient]


class Service:
    """A service with the declared collection ``docs``, which is never indexed.

    Attributes:
        url: its base URL, with the prefix ``/kb``.
        works: set while the worker takes up nudges.
    """

    def __init__(self, database_url: str, provider: ScriptedProvider) -> None:
        self.model = OpenAIModel(provider="fake", model="m", base_url=provider.base_url, key="k", dimensions=None)
        source = define_knowledge_source(kind="custom", documents=lambda: iter(()))
        self.queue = InlineQueue()
        settings = Settings(database_url=database_url, tokens=json.dumps(TOKENS), root_path="/kb", retry_ms=10)
        self.knowledge = Knowledge(
            [KnowledgeCollection("docs", model=self.model, sources=[source])],
            embedding_model=self.model,
            settings=settings,
            locks=MemoryLocks(),
            queue=self.queue,
        )
        self.works = threading.Event()
        self.works.set()
        self._ended = threading.Event()
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[Service]:
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/kb"
        app = create_app(self.knowledge)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
        threads = [
            threading.Thread(target=server.run, kwargs={"sockets": [listener]}),
            threading.Thread(target=self._work),
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            server.should_exit = True
            self._ended.set()
            for thread in threads:
                thread.join()
            listener.close()
            self.knowledge.close()

    def _work(self) -> None:
        while not self._ended.wait(0.01):
            if self.works.is_set():
                for name in {*self.queue.take_synced()} - {"docs"}:
                    self.knowledge.run_pass(name)


class Blocking:
    """An asynchronous client whose methods block."""

    def __init__(self, client: AsyncKnowledgeClient, portal: Any) -> None:
        self._client = client
        self._portal = portal

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            answer = getattr(self._client, name)(*arguments, **options)
            return self._iterate(answer) if isinstance(answer, AsyncIterator) else self._portal.call(_awaited, answer)

        return call

    def _iterate(self, answer: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self._portal.call(anext, answer)
            except StopAsyncIteration:
                return


async def _awaited(answer: Any) -> Any:
    return await answer


@pytest.fixture
def service(database_url: str, provider: ScriptedProvider) -> Iterator[Service]:
    with Service(database_url, provider).running() as service:
        yield service


@pytest.fixture(params=["blocking", "asynchronous"])
def connect(request: pytest.FixtureRequest, service: Service) -> Iterator[Connect]:
    with ExitStack() as stack:

        def build(token: str | None = WRITER, **options: Any) -> KnowledgeClient:
            if request.param == "blocking":
                return stack.enter_context(KnowledgeClient(service.url, token=token, **options))
            portal = stack.enter_context(start_blocking_portal())
            client = AsyncKnowledgeClient(service.url, token=token, **options)
            stack.callback(portal.call, client.close)
            return cast("KnowledgeClient", Blocking(client, portal))

        yield build


@pytest.fixture
def client(connect: Connect) -> KnowledgeClient:
    return connect()


def test_a_collection_from_its_creation_to_its_end(client: KnowledgeClient) -> None:
    created = client.create_collection("notes", title="Notes", description="What we noted.")
    assert (created.kind, created.status, created.title, created.trusted) == ("managed", "pending", "Notes", False)
    client.wait_until_ready("notes")

    put = client.put("notes", "fruit/apples.md", "apples are red", title="Apples", metadata={"n": [1, None, "ä"]})
    assert (put.status, put.accepted) == ("pending", True)
    client.wait_until_ready("notes", "fruit/apples.md")
    found = client.search("red apples", collections=["notes"], top_k=1)
    assert [(one.document, one.text, one.title) for one in found.matches] == [
        ("fruit/apples.md", "apples are red", "Apples")
    ]

    read = client.document("notes", "fruit/apples.md")
    assert (read.content, read.metadata, read.status) == ("apples are red", {"n": [1, None, "ä"]}, "ready")
    assert read.updated_at.tzinfo is not None
    again = client.put("notes", "fruit/apples.md", "apples are red", title="Apples", metadata={"n": [1, None, "ä"]})
    assert (again.status, again.accepted, again.etag) == ("ready", False, read.etag)

    shown = client.collection("notes")
    assert (shown.documents.ready, shown.passages, shown.generation, shown.model) == (1, 1, 1, "fake/m")
    assert [one.name for one in client.collections()] == ["docs", "notes"]
    assert client.passes("notes")[0].outcome == "ok"
    client.sync("notes", force=True)

    client.delete("notes", "fruit/apples.md")
    assert client.search("red apples", collections="notes").matches == ()
    client.delete_collection("notes")
    with pytest.raises(CollectionNotFoundError) as absent:
        client.collection("notes")
    assert (absent.value.name, absent.value.status) == ("notes", 404)


IDS = ["a/b", "%2F", "a%2Fb", "..", ".", "../../docs", "ä", "a b", "a?b#c", "+", "%", "\\", "\n", "a//b", "☃" * 85]


def test_every_id_means_itself(client: KnowledgeClient) -> None:
    client.create_collection("notes")
    for identifier in IDS:
        client.put("notes", identifier, f"This is {identifier}")
    assert sorted(one.id for one in client.documents("notes")) == sorted(IDS)
    for identifier in IDS:
        assert client.document("notes", identifier).content == f"This is {identifier}"
    for identifier in IDS:
        client.delete("notes", identifier)
    assert list(client.documents("notes")) == []


def test_writes_under_a_condition(client: KnowledgeClient) -> None:
    client.create_collection("notes")
    first = client.put("notes", "a", "one", create_only=True)
    with pytest.raises(PreconditionFailedError):
        client.put("notes", "a", "two", create_only=True)
    second = client.put("notes", "a", "two", if_match=first.etag)
    for write in (
        lambda: client.put("notes", "a", "three", if_match=first.etag),
        lambda: client.delete("notes", "a", if_match=first.etag),
        lambda: client.put("notes", "b", "new", if_match=first.etag),
    ):
        with pytest.raises(PreconditionFailedError) as refused:
            write()
        assert refused.value.status == 412
    client.wait_until_ready("notes", "a")
    client.delete("notes", "a", if_match=second.etag)
    with pytest.raises(DocumentNotFoundError):
        client.document("notes", "a")


def test_errors_are_those_of_the_front_door(connect: Connect, client: KnowledgeClient) -> None:
    client.create_collection("notes")
    with pytest.raises(CollectionExistsError):
        client.create_collection("notes")
    with pytest.raises(CollectionDeclaredError):
        client.create_collection("docs")
    with pytest.raises(InvalidInputError) as named:
        client.create_collection("My Notes")
    assert named.value.field == "name"
    assert "my-notes" in str(named.value)
    with pytest.raises(InvalidInputError) as empty:
        client.put("notes", "a", "")
    assert (empty.value.field, empty.value.status) == ("content", 400)
    for call in (lambda: client.put("docs", "a", "x"), lambda: client.delete("docs", "a")):
        with pytest.raises((CollectionNotManagedError, CollectionNotFoundError)):
            call()
    with pytest.raises(CollectionNotFoundError):
        client.put("other", "a", "x")
    with pytest.raises(CollectionNotFoundError):
        client.collection("../x")
    with pytest.raises(CollectionNotReadyError):
        client.search("x", collections="docs")
    with pytest.raises(InvalidInputError) as wide:
        client.search("x", top_k=21)
    assert wide.value.field == "topK"
    with pytest.raises(PermissionDeniedError):
        connect(READER).sync("notes")
    with pytest.raises(UnauthenticatedError):
        connect(None).collections()
    assert connect(READER).collection("notes").name == "notes"


def test_waiting_for_what_fails_and_for_what_takes_too_long(
    client: KnowledgeClient, service: Service, provider: ScriptedProvider
) -> None:
    client.create_collection("notes")
    client.wait_until_ready("notes")
    service.works.clear()
    client.put("notes", "a", "apples are red")
    with pytest.raises(ServiceUnavailableError, match="pending after"):
        client.wait_until_ready("notes", "a", timeout_s=0.05)
    with pytest.raises(ServiceUnavailableError, match="1 of 1 documents pending"):
        client.wait_until_ready("notes", timeout_s=0.05)
    provider.script(Rule(status=400, contains="apples"))
    service.works.set()
    with pytest.raises(EmbeddingError):
        client.wait_until_ready("notes", "a")
    with pytest.raises(EmbeddingError, match="1 of 1 documents"):
        client.wait_until_ready("notes")
    (failed,) = client.documents("notes", status="failed")
    assert (failed.id, failed.content) == ("a", None)
    assert failed.error


def test_many_documents_at_once(client: KnowledgeClient) -> None:
    client.create_collection("notes")
    given: list[dict[str, Any]] = [{"id": f"d{number:04}", "content": f"number {number}"} for number in range(1200)]
    given[3]["content"] = ""
    given[5]["id"] = "../ä?%2F"
    given[7]["title"] = "t" * 2000
    results = list(client.put_many("notes", iter(given)))
    assert [one.id for one in results] == [each["id"] for each in given]
    assert [one.position for one in results if one.error is not None] == [3]
    assert isinstance(results[3].error, InvalidInputError)
    assert results[3].error.field == "content"
    assert (results[7].warnings[0].partition(":")[0], results[7].accepted) == ("title", True)
    again = list(client.put_many("notes", given[:3]))
    assert [(one.accepted, one.error) for one in again] == [(False, None)] * 3
    client.wait_until_ready("notes")
    assert client.page("notes", limit=1, offset=1198).total == 1199
    assert len({one.id for one in client.documents("notes")}) == 1199
    assert client.document("notes", "../ä?%2F").content == "number 5"
    with pytest.raises(CollectionNotFoundError):
        list(client.put_many("other", given))


def test_readiness_and_a_service_that_is_away(client: KnowledgeClient, connect: Connect, service: Service) -> None:
    readiness = client.ready()
    assert readiness.ready == (readiness.missing == ())
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        closed = f"http://127.0.0.1:{reserved.getsockname()[1]}"
    with KnowledgeClient(closed, token=WRITER, retry_for_s=0.2) as away:
        with pytest.raises(ServiceUnavailableError, match="cannot be connected to") as refused:
            away.create_collection("notes")
        assert WRITER not in str(refused.value)


def test_a_connection_that_is_cut_in_mid_answer_is_tried_again(service: Service) -> None:
    """A proxy in front of the real service that breaks off every second connection."""
    port = int(service.url.rpartition(":")[2].partition("/")[0])
    cuts = iter([True, False, True, True, False])
    served: list[bytes] = []

    def relay(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, socket.create_connection(("127.0.0.1", port)) as upstream:
                request = connection.recv(65_536).replace(b"Connection: keep-alive", b"Connection: close")
                served.append(request.partition(b" ")[0])
                upstream.sendall(request)
                answer = b""
                while part := upstream.recv(65_536):
                    answer += part
                connection.sendall(answer[: len(answer) // 2] if next(cuts) else answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        relaying = threading.Thread(target=relay, args=(listener,))
        relaying.start()
        http = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0))
        service.knowledge.create_collection("notes")
        with http, KnowledgeClient(f"http://127.0.0.1:{listener.getsockname()[1]}/kb", token=WRITER, http=http) as cut:
            assert cut.collection("notes").name == "notes"
            service.knowledge.put_document("notes", "a", "x")
            cut.delete("notes", "a")
        listener.shutdown(socket.SHUT_RDWR)
        relaying.join()
    assert served == [b"GET", b"GET", b"DELETE", b"DELETE", b"DELETE"]


@pytest.mark.parametrize("kind", ["blocking", "asynchronous"])
def test_a_path_reaches_the_socket_as_it_was_encoded(kind: str) -> None:
    lines: list[bytes] = []

    def echo(listener: socket.socket) -> None:
        for _ in IDS:
            connection, _ = listener.accept()
            with connection:
                lines.append(connection.recv(65_536).partition(b"\r\n")[0])
                connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    async def delete_all(url: str) -> None:
        async with AsyncKnowledgeClient(url, token=WRITER) as client:
            for identifier in IDS:
                await client.delete("notes", identifier)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        echoing = threading.Thread(target=echo, args=(listener,))
        echoing.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/kb"
        if kind == "blocking":
            with KnowledgeClient(url, token=WRITER) as client:
                for identifier in IDS:
                    client.delete("notes", identifier)
        else:
            anyio.run(delete_all, url)
        echoing.join()
    segments = [line.split()[1].removeprefix(b"/kb/knowledge/collections/notes/documents/") for line in lines]
    assert not any(b"/" in segment for segment in segments)
    assert [unquote_to_bytes(segment).decode() for segment in segments] == IDS
    assert segments[3:5] == [b"%2E%2E", b"%2E"]
