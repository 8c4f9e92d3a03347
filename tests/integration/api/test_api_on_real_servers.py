"""The API over a real Knowledge on a real database: the main job over HTTP, and what failures look like there."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from knowledge_worker import Knowledge, KnowledgeCollection, create_app, define_knowledge_source
from knowledge_worker.config import Settings
from knowledge_worker.embedding.openai import OpenAIModel
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.queue.inline import InlineQueue
from knowledge_worker.testing.provider import Rule, ScriptedProvider

TOKEN = "a-token-for-tests-0123456789"
Serve = Callable[..., tuple[Knowledge, TestClient]]


@pytest.fixture
def serve(provider: ScriptedProvider) -> Iterator[Serve]:
    """A Knowledge with the collection ``docs`` and a client of its API."""
    made: list[Knowledge] = []

    def build(database_url: str, **documents: str) -> tuple[Knowledge, TestClient]:
        def read() -> Iterator[dict[str, Any]]:
            yield from ({"id": name, "content": content} for name, content in documents.items())

        model = OpenAIModel(provider="fake", model="m", base_url=provider.base_url, key="k", dimensions=None)
        source = define_knowledge_source(kind="custom", documents=read)
        tokens = json.dumps([{"value": TOKEN, "id": "t", "permissions": ["knowledge:*"]}])
        knowledge = Knowledge(
            [KnowledgeCollection("docs", model=model, sources=[source])],
            settings=Settings(database_url=database_url, tokens=tokens),
            locks=MemoryLocks(),
            queue=InlineQueue(),
        )
        made.append(knowledge)
        return knowledge, TestClient(create_app(knowledge), headers={"Authorization": f"Bearer {TOKEN}"})

    yield build
    for knowledge in made:
        knowledge.close()


def test_ask_for_a_pass_and_find_what_it_indexed(serve: Serve, database_url: str) -> None:
    knowledge, client = serve(database_url, a="apples are red", b="bananas are yellow")
    before = client.get("/knowledge/collections").json()["data"]
    assert [(one["name"], one["status"], one["passages"]) for one in before] == [("docs", "pending", 0)]
    assert client.post("/knowledge/search", json={"query": "x", "collections": ["docs"]}).status_code == 409

    knowledge.node_started(["sync"])
    assert client.post("/knowledge/collections/docs/sync", json={"force": True}).status_code == 202
    assert knowledge.run_pass("docs") == "ok"

    view = client.get("/knowledge/collections/docs").json()
    assert (view["status"], view["model"], view["generation"], view["running"]) == ("ready", "fake/m", 1, False)
    assert view["documents"] == {"total": 2, "pending": 0, "ready": 2, "failed": 0}
    assert view["syncedAt"].endswith("Z")
    found = client.post("/knowledge/search", json={"query": "red apples", "topK": 1}).json()
    assert found == client.get("/knowledge/search?q=red+apples&collection=docs&topK=1").json()
    (match,) = found["matches"]
    assert (match["document"], match["text"], match["lines"], match["index"]) == ("a", "apples are red", [1, 1], 0)
    assert found == client.get("/knowledge/search?q=red+apples&collections=docs&topK=1").json()
    newest = client.get("/knowledge/collections/docs/passes").json()["data"][0]
    assert (newest["outcome"], newest["counts"]["added"], newest["counts"]["calls"]) == ("ok", 2, 1)


def test_odd_input_never_reaches_the_database_as_an_error(serve: Serve, database_url: str) -> None:
    knowledge, client = serve(database_url, a="apples")
    knowledge.node_started(["sync"])
    knowledge.run_pass("docs")
    answers = [
        client.get("/knowledge/collections/docs%00"),
        client.post("/knowledge/collections/%00/sync"),
        client.get(f"/knowledge/collections/{'a' * 64}/passes"),
        client.post("/knowledge/search", json={"query": "a\x00b"}),
        client.post("/knowledge/search", json={"query": "\x00"}),
        client.post("/knowledge/search", json={"query": "x", "collections": ["a\x00"]}),
        client.get("/knowledge/search?q=%00&collection=%00"),
        client.get("/knowledge/search?q=%ff%fe"),
        client.get("/knowledge/search?q=x&minScore=1e400"),
        client.get("/knowledge/search?q=%E2%80%8B"),
        client.get("/knowledge/search?q=x&collections=nope"),
    ]
    assert all(answer.status_code in (200, 400, 404) for answer in answers), [a.text for a in answers]


def test_a_provider_that_refuses_is_503_with_its_own_waiting_time(
    serve: Serve, database_url: str, provider: ScriptedProvider
) -> None:
    knowledge, client = serve(database_url, a="apples")
    knowledge.node_started(["sync"])
    knowledge.run_pass("docs")
    provider.script(Rule(status=429, headers={"Retry-After": "17"}))
    answer = client.post("/knowledge/search", json={"query": "apples", "mode": "semantic"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "17")
    assert answer.json()["error"]["code"] == "embedding_unavailable"


def test_a_search_by_both_goes_by_words_while_the_provider_refuses(
    serve: Serve, database_url: str, provider: ScriptedProvider
) -> None:
    knowledge, client = serve(database_url, a="apples", b="pears")
    knowledge.node_started(["sync"])
    knowledge.run_pass("docs")
    provider.script(Rule(status=500))
    answer = client.post("/knowledge/search", json={"query": "pears", "explain": True}).json()
    assert [(match["document"], match["scoreKind"]) for match in answer["matches"]] == [("b", "bm25")]
    assert answer["matches"][0]["explanation"].keys() == {"lexicalRank", "bm25", "model"}
    assert (answer["mode"], bool(answer["degraded"])) == ("hybrid", True)


def test_without_a_database_everything_is_503_and_the_process_still_lives(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    _, client = serve(f"postgresql://nobody:hidden@127.0.0.1:{port}/none")
    answers = [
        client.get("/knowledge/collections"),
        client.post("/knowledge/search", json={"query": "x"}),
        client.post("/knowledge/collections/docs/sync"),
    ]
    assert [answer.status_code for answer in answers] == [503] * 3
    assert {answer.json()["error"]["code"] for answer in answers} == {"unavailable"}
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (503, "unready")
    assert client.get("/healthz").status_code == 200
    assert all("hidden" not in answer.text for answer in [*answers, ready])
