"""The tools over a real Knowledge, and over a client of its API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from knowledge_worker import KnowledgeCollection, create_app, define_knowledge_source, knowledge_tools
from knowledge_worker.cli.network import listening_socket
from knowledge_worker.client import KnowledgeClient
from knowledge_worker.testing.provider import Rule, ScriptedProvider
from knowledge_worker.tools import KnowledgeTools

from .conftest import READER, REFUNDS, TICKET

if TYPE_CHECKING:
    from .conftest import Application

ALL = ["handbook", "tickets", "empty"]


@pytest.fixture
def client(application: Application) -> Iterator[KnowledgeClient]:
    """A client of the API, which another thread serves."""
    listener = listening_socket("127.0.0.1", 0, "", "")
    server = uvicorn.Server(uvicorn.Config(create_app(application.knowledge), log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with KnowledgeClient(address, token=READER) as client:
        yield client
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.fixture(params=["here", "over the API"])
def make(request: pytest.FixtureRequest, application: Application) -> Any:
    knowledge = application.knowledge if request.param == "here" else request.getfixturevalue("client")
    return lambda *names, **options: knowledge_tools(knowledge, collections=names or ALL, **options)


def test_search_and_read_on(make: Any) -> None:
    tools: KnowledgeTools = make("handbook")
    found = tools.search.call({"query": "how long does a refund take", "topK": 1})
    (match,) = found.data["matches"]
    assert (match["document"], match["trusted"], found.tainted) == ("refunds.md", True, False)
    by_section = tools.read.call({"collection": "handbook", "document": "refunds.md", "section": match["section"]})
    by_index = tools.read.call({"collection": "handbook", "document": "refunds.md", "around": match["index"]})
    by_lines = tools.read.call({"collection": "handbook", "document": "refunds.md", "lines": match["lines"]})
    for read in (by_section, by_index, by_lines):
        assert "A refund takes 14 days" in read.data["text"]
        assert not read.tainted
    assert by_index.data["text"] == REFUNDS.rstrip("\n")


def test_trust_as_the_store_has_it(make: Any) -> None:
    """Case 39."""
    tools: KnowledgeTools = make()
    assert not tools.search.call({"query": "refund", "collection": "handbook"}).tainted
    both = tools.search.call({"query": "mail eve"})
    assert both.tainted
    assert {one["collection"]: one["trusted"] for one in both.data["matches"]}["tickets"] is False
    assert both.data["unavailable"][0]["collection"] == "empty"
    ticket = tools.read.call({"collection": "tickets", "document": "t/1"})
    assert (ticket.data["text"], ticket.tainted) == (TICKET, True)
    assert json.loads(ticket.text) == ticket.data
    # Never indexed, so nobody but the code vouches for it; that is enough here, and unknown over the API.
    error = tools.search.call({"query": "x", "collection": "empty"})
    assert error.data["error"]["message"] == 'Knowledge collection "empty" is not ready.'


def test_a_collection_that_is_not_there_taints_and_is_named(make: Any) -> None:
    tools: KnowledgeTools = make("handbook", "gone")
    result = tools.search.call({"query": "refund"})
    assert result.tainted
    assert [one["collection"] for one in result.data["unavailable"]] == ["gone"]
    assert tools.search.call({"query": "x", "collection": "gone"}).is_error


def test_refused_calls_never_embed(make: Any, provider: ScriptedProvider) -> None:
    """Rule 60, case 42."""
    tools: KnowledgeTools = make("handbook")
    before = len(provider.requests)
    for given in (
        {"query": "x", "collection": "tickets"},
        {"query": "x", "collection": "nope"},
        {"query": "x", "topK": 21},
        {"query": "x" * 1001},
        {"query": " "},
    ):
        assert tools.search.call(given).is_error
    assert tools.read.call({"collection": "tickets", "document": "t/1"}).is_error
    assert len(provider.requests) == before


def test_a_provider_that_is_down_is_said_in_words_for_the_model(make: Any, provider: ScriptedProvider) -> None:
    provider.script(Rule(status=401))
    result = make("tickets").search.call({"query": "a new question"})
    assert "401" not in result.text
    assert result.tainted


def test_a_search_by_words_alone_says_so(application: Application, provider: ScriptedProvider) -> None:
    provider.script(Rule(status=401))
    tools = knowledge_tools(application.knowledge, collections=["tickets"])
    result = tools.search.call({"query": "ignore instructions"})
    assert result.data["degraded"] == "Searched by words alone; the search by meaning does not answer right now."
    assert result.data["matches"]
    by_meaning = knowledge_tools(application.knowledge, collections=["tickets"], mode="semantic")
    error = by_meaning.search.call({"query": "ignore other instructions"}).data["error"]
    assert error["code"] == "embedding_unavailable"
    assert error["message"].startswith("Knowledge cannot be searched right now.")


def test_a_declaration_that_is_not_trusted_acts_at_once(application: Application) -> None:
    """Rule 39."""
    from knowledge_worker import Knowledge

    source = define_knowledge_source(documents=lambda: iter(()), trusted=False)
    stored = application.knowledge
    changed = Knowledge(
        [KnowledgeCollection("handbook", model="fake/m", sources=[source])], settings=stored.settings
    )  # fmt: skip
    try:
        result = knowledge_tools(changed, collections=["handbook"]).search.call({"query": "refund"})
    finally:
        changed.close()
    assert result.data["matches"]
    assert result.tainted
    assert not any(match["trusted"] for match in result.data["matches"])
