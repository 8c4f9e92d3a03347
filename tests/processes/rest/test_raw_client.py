"""Cases 34 to 36 over a real process and a real store, with a client that sends paths as they are given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from knowledge_worker.testing.raw_http import exchange

from .conftest import Service

pytestmark = pytest.mark.processes

BODY_LIMIT = 1_048_576
CONTENT_MAX_CHARS = 1_048_576
IDS = {
    "a%2Fb": "a/b",
    "a%20b": "a b",
    "%C3%A4": "ä",
    "%252F": "%2F",
    "%2F": "/",
    "%2e%2E": "..",
    ".": ".",
    "a+b": "a+b",
    "batch": "batch",
    "%0A": "\n",
}
"""Segment of the path to the id it means."""

Send = Callable[..., tuple[int, Any]]


@pytest.fixture
def notes(service: Service) -> Iterator[httpx.Client]:
    """A client of the empty collection ``notes``, its base the documents of it."""
    with service.client() as client:
        client.post("collections", json={"name": "notes"}).raise_for_status()
        client.base_url = client.base_url.join("collections/notes/documents/")
        yield client
        client.delete(f"{service.url}/knowledge/collections/notes").raise_for_status()


@pytest.fixture
def send(service: Service) -> Send:
    """Sends one request with a raw path; answers status and content."""

    def one(method: str, path: str, *, token: str | None = service.writer, document: Any = None) -> tuple[int, Any]:
        body = b"" if document is None else json.dumps(document).encode()
        headers = [f"Content-Length: {len(body)}"] + ([] if token is None else [f"Authorization: Bearer {token}"])
        status, _, content = exchange(service.port, path, method=method, headers=tuple(headers), body=body)
        return status, content

    return one


def path(segment: str, *, collection: str = "notes") -> str:
    return f"/knowledge/collections/{collection}/documents/{segment}"


def listed(client: httpx.Client) -> set[str]:
    return {document["id"] for document in client.get(f"{client.base_url}".rstrip("/")).json()["data"]}


def test_an_encoded_path_addresses_exactly_its_id(notes: httpx.Client, send: Send) -> None:
    for segment, identifier in IDS.items():
        assert send("PUT", path(segment), document={"content": f"this is {identifier!r}"})[0] == 202
    assert listed(notes) == set(IDS.values())
    for segment, identifier in IDS.items():
        status, found = send("GET", path(segment))
        assert (status, found["id"], found["content"]) == (200, identifier, f"this is {identifier!r}")
    left = set(IDS.values())
    for segment, identifier in IDS.items():
        assert send("DELETE", path(segment))[0] == 204
        left.remove(identifier)
        assert listed(notes) == left
        assert [send(method, path(segment))[0] for method in ("GET", "DELETE")] == [404, 404]


def test_two_dots_are_an_id_and_no_way_up(notes: httpx.Client, send: Send) -> None:
    assert send("PUT", path(".."), document={"content": "two dots"})[0] == 202
    assert listed(notes) == {".."}
    assert send("GET", path("%2e%2e"))[1]["content"] == "two dots"


@pytest.mark.parametrize("segment", ["%zz", "%", "%ff", "", "%00", "a%00b", "a" * 256, "%C3%A4" * 256])
def test_an_id_that_no_document_can_have_is_400(notes: httpx.Client, send: Send, segment: str) -> None:
    answers = [send("GET", path(segment)), send("PUT", path(segment), document={"content": "x"})]
    answers.append(send("DELETE", path(segment)))
    assert [(status, answer["error"]["code"]) for status, answer in answers] == [(400, "invalid_input")] * 3
    assert listed(notes) == set()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_token_comes_before_its_permission_then_the_id_then_the_collection(
    service: Service, send: Send, method: str
) -> None:
    absent, bad = path("a", collection="absent"), path("%zz", collection="absent")
    document = {"content": "x"} if method == "PUT" else None
    lacking = service.powerless if method == "GET" else service.reader
    assert send(method, bad, token=None, document=document)[0] == 401
    assert send(method, bad, token="an-unknown-token-0123", document=document)[0] == 401
    assert send(method, bad, token=lacking, document=document)[0] == 403
    assert send(method, bad, document=document)[0] == 400
    assert send(method, absent, document=document)[0] == 404


def test_a_star_and_a_star_below_knowledge_are_enough_and_knowledge_is_not(
    notes: httpx.Client, service: Service, send: Send
) -> None:
    tokens = (service.writer, service.almighty, service.powerless)
    assert [send("PUT", path("a"), token=token, document={"content": "x"})[0] for token in tokens] == [202, 200, 403]
    assert [send("GET", path("a"), token=token)[0] for token in tokens] == [200, 200, 403]
    assert [send("DELETE", path("a"), token=token)[0] for token in tokens] == [204, 404, 403]


def test_a_body_may_have_a_mebibyte_and_no_byte_more(notes: httpx.Client) -> None:
    def body(size: int) -> bytes:
        wrapped = b'{"content": "%s"}'
        return wrapped % (b"x" * (size - len(wrapped) + 2))

    assert notes.put("long", content=body(BODY_LIMIT)).status_code == 202
    answer = notes.put("longer", content=body(BODY_LIMIT + 1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    assert listed(notes) == {"long"}


@pytest.mark.parametrize("body", ['{"content": ""}', "[]", '[{"content": "x"}]', '"x"', "null", "", "{}", "{"])
def test_empty_content_and_what_is_no_object_are_400(notes: httpx.Client, body: str) -> None:
    answer = notes.put("a", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
    assert listed(notes) == set()


def test_with_a_raised_limit_content_is_bounded_by_its_characters(service: Service, notes: httpx.Client) -> None:
    with (
        service.another_api(KNOWLEDGE_BODY_LIMIT="9000000") as (_, url),
        httpx.Client(headers=notes.headers, timeout=60) as client,
    ):
        documents = f"{url}/knowledge/collections/notes/documents"
        most = client.put(f"{documents}/most", json={"content": "ä" * CONTENT_MAX_CHARS})
        more = client.put(f"{documents}/more", json={"content": "x" * (CONTENT_MAX_CHARS + 1)})
    assert most.status_code == 202
    assert (more.status_code, more.json()["error"]["field"]) == (400, "content")
    assert listed(notes) == {"most"}
