"""What is sent, and what is made of the answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from knowledge_worker.client import AsyncKnowledgeClient, KnowledgeClient
from knowledge_worker.domain.document import DocumentStatus
from knowledge_worker.errors import ConfigurationError, InvalidInputError

from .conftest import BASE, TOKEN, Connect, Service, collection, document

IDS = {
    "a/b": "a%2Fb",
    "%2F": "%252F",
    "..": "%2E%2E",
    ".": "%2E",
    "../../x": "..%2F..%2Fx",
    "ä": "%C3%A4",
    "a b": "a%20b",
    "a?b#c": "a%3Fb%23c",
    "a%": "a%25",
    "a+b&c=d": "a%2Bb%26c%3Dd",
    "~-_": "~-_",
    "\\": "%5C",
    "a//b": "a%2F%2Fb",
    "\n": "%0A",
}


@pytest.mark.parametrize(("identifier", "encoded"), IDS.items())
def test_an_id_is_percent_encoded_once(
    client: KnowledgeClient, service: Service, identifier: str, encoded: str
) -> None:
    service.script = [httpx.Response(204)]
    client.delete("notes", identifier)
    assert service.paths == [f"/kb/knowledge/collections/notes/documents/{encoded}"]


@pytest.mark.parametrize("identifier", ["", "x" * 256, "a\x00b", "\ud800", None])
def test_an_id_that_no_document_has_is_not_sent(client: KnowledgeClient, service: Service, identifier: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        client.document("notes", identifier)
    assert (caught.value.field, service.requests) == ("id", [])


def test_a_name_is_encoded_as_well(client: KnowledgeClient, service: Service) -> None:
    service.script = [httpx.Response(204)]
    client.delete_collection("../x")
    client.delete_collection("..")
    assert service.paths == ["/kb/knowledge/collections/..%2Fx", "/kb/knowledge/collections/%2E%2E"]


def test_a_put_says_what_became_of_the_document(client: KnowledgeClient, service: Service) -> None:
    service.script = [
        httpx.Response(202, json={"status": "pending", "warnings": ["title: cut"]}, headers={"ETag": '"1-a"'}),
        httpx.Response(200, json={"status": "ready"}, headers={"ETag": '"1-b"'}),
    ]
    first = client.put("notes", "a", "Tee für dich", title="T", metadata={"n": [1, None]})
    second = client.put("notes", "a", "Tee für dich", if_match=first.etag)
    assert (first.id, first.status, first.accepted, first.etag) == ("a", DocumentStatus.PENDING, True, '"1-a"')
    assert first.warnings == ("title: cut",)
    assert (second.status, second.accepted, second.etag) == ("ready", False, '"1-b"')
    sent = service.requests[0]
    assert json.loads(sent.content) == {"content": "Tee für dich", "title": "T", "metadata": {"n": [1, None]}}
    assert "Tee für dich".encode() in sent.content
    assert sent.headers["Authorization"] == f"Bearer {TOKEN}"
    assert "If-Match" not in sent.headers
    assert service.requests[1].headers["If-Match"] == '"1-a"'


def test_what_only_an_escape_can_carry_is_escaped(client: KnowledgeClient, service: Service) -> None:
    service.script = [httpx.Response(202, json={"status": "pending"})]
    client.put("notes", "a", "x\ud800y\x00")
    assert json.loads(service.requests[0].content) == {"content": "x\ud800y\x00"}


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, datetime(2026, 1, 1, tzinfo=UTC)])
def test_metadata_that_json_cannot_hold_is_not_sent(client: KnowledgeClient, service: Service, value: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        client.put("notes", "a", "x", metadata={"k": value})
    assert (caught.value.field, service.requests) == ("metadata", [])


def test_creating_only_and_deleting_under_a_condition(client: KnowledgeClient, service: Service) -> None:
    service.script = [httpx.Response(202, json={"status": "pending"}), httpx.Response(204)]
    client.put("notes", "a", "x", create_only=True)
    client.delete("notes", "a", if_match='"1"')
    assert service.requests[0].headers["If-None-Match"] == "*"
    assert (service.requests[1].method, service.requests[1].headers["If-Match"]) == ("DELETE", '"1"')


def test_a_document_is_read_with_its_tag_and_an_aware_time(client: KnowledgeClient, service: Service) -> None:
    shown = document(content="x", metadata={"v": 2}, updatedAt="2026-01-31T13:00:00.5+01:00", somethingNew=1)
    service.script = [httpx.Response(200, json=shown, headers={"ETag": '"1"'})]
    found = client.document("notes", "a")
    assert (found.content, found.metadata, found.etag, found.title) == ("x", {"v": 2}, '"1"', None)
    assert found.updated_at == datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)
    assert found.updated_at.utcoffset() == timedelta(hours=1)
    with pytest.raises(ValueError, match="frozen"):
        found.title = "x"  # type: ignore[misc]


def test_a_word_of_a_newer_service_is_kept_as_it_is(client: KnowledgeClient, service: Service) -> None:
    service.script = [httpx.Response(200, json={"data": [collection(status="resting", stale=True)]})]
    (found,) = client.collections()
    assert (found.status, found.kind) == ("resting", "managed")


def test_documents_turns_pages_until_the_end(client: KnowledgeClient, service: Service) -> None:
    def page(request: httpx.Request) -> httpx.Response:
        offset, limit = (int(request.url.params[f"page[{part}]"]) for part in ("offset", "limit"))
        shown = [document(f"d{number}") for number in range(offset, min(offset + limit, 250))]
        return httpx.Response(200, json={"data": shown, "meta": {"total": 250, "limit": limit, "offset": offset}})

    service.script = [page]
    assert [one.id for one in client.documents("notes", status="ready")] == [f"d{number}" for number in range(250)]
    assert [request.url.params["filter[status]"] for request in service.requests] == ["ready"] * 3
    assert service.paths[0].startswith("/kb/knowledge/collections/notes/documents?")


def test_documents_asks_for_no_page_before_it_is_needed(client: KnowledgeClient, service: Service) -> None:
    meta = {"total": 250, "limit": 1, "offset": 0}
    service.script = [httpx.Response(200, json={"data": [document()], "meta": meta})]
    listed = client.documents("notes")
    assert service.requests == []
    assert next(listed).id == "a"
    assert len(service.requests) == 1


def test_documents_ends_with_an_empty_page_though_more_were_promised(client: KnowledgeClient, service: Service) -> None:
    service.script = [httpx.Response(200, json={"data": [], "meta": {"total": 9, "limit": 100, "offset": 0}})]
    assert list(client.documents("notes")) == []


def test_a_page_is_one_request(client: KnowledgeClient, service: Service) -> None:
    meta = {"total": 7, "limit": 1, "offset": 3}
    service.script = [httpx.Response(200, json={"data": [document()], "meta": meta})]
    page = client.page("notes", limit=1, offset=3)
    assert (page.total, page.offset, page.documents[0].id) == (7, 3, "a")


def test_a_search_answers_what_the_front_door_answers(client: KnowledgeClient, service: Service) -> None:
    match = {"collection": "notes", "document": "a", "index": 0, "text": "x", "score": 0.5, "lines": [1, 2]}
    service.script = [
        httpx.Response(
            200,
            json={
                "matches": [{**match, "trusted": False}],
                "truncated": True,
                "unavailable": [{"collection": "b", "reason": "r"}],
            },
        ),
        httpx.Response(200, json={"matches": [], "truncated": False}),
    ]
    found = client.search("q", collections="notes", top_k=3, min_score=0.1)
    assert (found.matches[0].lines, found.matches[0].section, found.truncated) == ((1, 2), (), True)
    assert found.unavailable[0].collection == "b"
    assert client.search("q").matches == ()
    bodies = [json.loads(request.content) for request in service.requests]
    assert bodies == [{"query": "q", "collections": ["notes"], "topK": 3, "minScore": 0.1}, {"query": "q", "topK": 5}]


def test_sync_passes_plan_and_create(client: KnowledgeClient, service: Service) -> None:
    counts = dict.fromkeys(
        ("read", "added", "changed", "unchanged", "deleted", "skipped", "failed", "embedded", "reused", "calls"), 1
    )
    record = {"id": 1, "trigger": "request", "outcome": "ok", "startedAt": "2026-01-31T12:00:00Z", "worker": "w"}
    plan = {
        **counts, "collection": "notes", "model": "local/m", "reembeds": True, "deletesHeldBack": False,
        "documents": 1, "passages": 2, "tokens": 3,
    }  # fmt: skip
    service.script = [
        httpx.Response(202, json={"name": "notes"}),
        httpx.Response(200, json={"data": [{**record, "counts": {**counts, "tokens": 9}}]}),
        httpx.Response(200, json=plan),
        httpx.Response(201, json=collection("new", title="T")),
    ]
    client.sync("notes", force=True)
    (found,) = client.passes("notes", limit=1)
    assert (found.outcome, found.counts.tokens, found.ended_at) == ("ok", 9, None)
    assert client.plan("notes").reembeds
    assert client.create_collection("new", title="T").title == "T"
    assert [path.rpartition("/collections")[2] for path in service.paths] == [
        "/notes/sync?force=true",
        "/notes/passes?limit=1",
        "/notes/plan",
        "",
    ]
    assert json.loads(service.requests[3].content) == {"name": "new", "title": "T"}


def test_readiness_is_an_answer_and_carries_no_token(client: KnowledgeClient, service: Service) -> None:
    service.script = [
        httpx.Response(503, json={"status": "unready", "missing": ["no worker"]}),
        httpx.Response(200, json={"status": "ready"}),
    ]
    assert (client.ready().missing, client.ready().ready) == (("no worker",), True)
    assert service.paths == ["/kb/readyz"] * 2
    assert not any("Authorization" in request.headers for request in service.requests)


def test_the_token_is_not_shown(connect: Connect) -> None:
    assert TOKEN not in repr(connect())
    for token in (f"{TOKEN}\n", "", f"{TOKEN} x", f"{TOKEN}ä"):
        with pytest.raises(ConfigurationError) as caught:
            connect(token=token)
        assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("kind", [KnowledgeClient, AsyncKnowledgeClient])
@pytest.mark.parametrize(
    "address", ["", "service.test", "ftp://service.test", "http://", f"http://me:{TOKEN}@service.test", f"{BASE}?a=b"]
)
def test_an_address_that_cannot_be_used_is_refused_at_once(kind: Any, address: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        kind(address)
    assert TOKEN not in str(caught.value)


def test_another_authentication_of_the_http_client_does_not_replace_the_token(service: Service) -> None:
    service.script = [httpx.Response(200, json={"data": []})]
    with httpx.Client(transport=httpx.MockTransport(service), auth=("user", "password")) as http:
        KnowledgeClient(BASE, token=TOKEN, http=http).collections()
        KnowledgeClient(BASE, http=http).collections()
        assert not http.is_closed
    sent = [request.headers["Authorization"].split()[0] for request in service.requests]
    assert sent == ["Bearer", "Basic"]


def test_leaving_closes_the_clients_own_connections_only(service: Service) -> None:
    with httpx.Client(transport=httpx.MockTransport(service)) as http:
        with KnowledgeClient(BASE, http=http):
            pass
        assert not http.is_closed
    with KnowledgeClient(BASE) as own:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        own.collections()
