"""Both clients over a scripted service; the asynchronous one is made to look like the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any, cast

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from knowledge_worker.client import AsyncKnowledgeClient, KnowledgeClient

BASE = "http://service.test/kb"
TOKEN = "a-secret-token-0123456789"

Answer = httpx.Response | Exception
Connect = Callable[..., KnowledgeClient]


class Service:
    """Answers with what is scripted, the last one again and again; remembers the requests."""

    def __init__(self) -> None:
        self.script: list[Answer | Callable[[httpx.Request], httpx.Response]] = []
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, httpx.Response):
            return answer(request)
        # A response is used up by the client that reads it.
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    async def later(self, request: httpx.Request) -> httpx.Response:
        return self(request)

    @property
    def paths(self) -> list[str]:
        return [request.url.raw_path.decode() for request in self.requests]


class Blocking:
    """An asynchronous client whose methods block."""

    def __init__(self, client: AsyncKnowledgeClient, portal: BlockingPortal) -> None:
        self._client = client
        self._portal = portal

    def __repr__(self) -> str:
        return repr(self._client)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            answer = method(*arguments, **options)
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
def service() -> Service:
    return Service()


@pytest.fixture(params=["blocking", "asynchronous"])
def connect(request: pytest.FixtureRequest, service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Make a client of the service, of either kind; waits are short."""
    monkeypatch.setattr("knowledge_worker.client.flows.FIRST_WAIT_S", 0.001)
    monkeypatch.setattr("knowledge_worker.client.waiting.FIRST_PAUSE_S", 0.001)
    with ExitStack() as stack:

        def build(**options: Any) -> KnowledgeClient:
            given = {"token": TOKEN, **options}
            if request.param == "blocking":
                blocking = httpx.Client(transport=httpx.MockTransport(service))
                return KnowledgeClient(BASE, http=stack.enter_context(blocking), **given)
            portal = stack.enter_context(start_blocking_portal())
            http = httpx.AsyncClient(transport=httpx.MockTransport(service.later))
            stack.callback(portal.call, http.aclose)
            return cast("KnowledgeClient", Blocking(AsyncKnowledgeClient(BASE, http=http, **given), portal))

        yield build


@pytest.fixture
def client(connect: Connect) -> KnowledgeClient:
    return connect()


def error(status: int, code: str, message: str = "It is so.", **more: Any) -> httpx.Response:
    """An error as the service answers it."""
    headers = more.pop("headers", None)
    return httpx.Response(status, json={"error": {"code": code, "message": message, **more}}, headers=headers)


def collection(name: str = "notes", **values: Any) -> dict[str, Any]:
    """A collection as the service shows it."""
    return {
        "name": name,
        "kind": "managed",
        "trusted": False,
        "status": "ready",
        "model": "local/m",
        "generation": 1,
        "updatedAt": "2026-01-31T12:00:00Z",
        "running": False,
        "documents": {"total": 2, "pending": 0, "ready": 2, "failed": 0},
        "passages": 4,
        **values,
    }


def document(identifier: str = "a", **values: Any) -> dict[str, Any]:
    """A document as the service shows it."""
    return {"id": identifier, "status": "ready", "hash": "0" * 64, "updatedAt": "2026-01-31T12:00:00Z", **values}
