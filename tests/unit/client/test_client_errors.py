"""What the service answers becomes the error that it raised."""

from __future__ import annotations

import traceback
from typing import Any

import httpx
import pytest

from knowledge_worker import errors
from knowledge_worker.client import KnowledgeClient
from knowledge_worker.client.exchange import Reply
from knowledge_worker.client.problems import problem
from knowledge_worker.errors import (
    CollectionExistsError,
    CollectionNotFoundError,
    ConfigurationError,
    ConflictError,
    DocumentNotFoundError,
    EmbeddingUnavailableError,
    InputTooLargeError,
    InvalidInputError,
    KnowledgeError,
    NotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    UnauthenticatedError,
)

from .conftest import TOKEN, Connect, Service, error

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, KnowledgeError)]


@pytest.mark.parametrize("kind", KINDS[1:], ids=lambda kind: kind.__name__)
def test_every_code_becomes_the_class_that_has_it(kind: type[KnowledgeError]) -> None:
    body = error(418, kind.code, "As it was said there.").content
    raised = problem(Reply(status=418, headers={}, body=body), collection="notes", address="http://x")
    assert type(raised) is kind
    assert (str(raised), raised.message, raised.status, raised.code) == (*["As it was said there."] * 2, 418, kind.code)


@pytest.mark.parametrize(
    ("kind", "attribute", "value"),
    [
        (InvalidInputError, "field", None),
        (CollectionNotFoundError, "name", "notes"),
        (errors.IncompleteReadError, "reasons", ()),
        (errors.EmbeddingRejectedError, "calls", 0),
        (EmbeddingUnavailableError, "retry_after_ms", None),
    ],
)
def test_an_error_has_the_attributes_of_its_class(kind: type[KnowledgeError], attribute: str, value: object) -> None:
    reply = Reply(status=400, headers={}, body=error(400, kind.code).content)
    assert getattr(problem(reply, collection="notes", address="http://x"), attribute) == value


def test_facts_beside_the_message_are_there(connect: Connect, service: Service) -> None:
    client = connect(retry_for_s=0)
    service.script = [error(400, "invalid_input", field="topK")]
    with pytest.raises(InvalidInputError) as invalid:
        client.search("q", top_k=0)
    assert invalid.value.field == "topK"
    service.script = [error(404, "collection_not_found")]
    with pytest.raises(CollectionNotFoundError) as absent:
        client.collection("notes")
    assert (absent.value.name, absent.value.status) == ("notes", 404)
    service.script = [error(503, "embedding_unavailable", headers={"Retry-After": "17"})]
    with pytest.raises(EmbeddingUnavailableError) as unavailable:
        client.search("q")
    assert (unavailable.value.retry_after_ms, unavailable.value.calls) == (17_000, 0)
    service.script = [error(404, "document_not_found")]
    with pytest.raises(DocumentNotFoundError):
        client.document("notes", "a")
    service.script = [error(409, "collection_exists")]
    with pytest.raises(CollectionExistsError):
        client.create_collection("notes")


STATUSES: list[tuple[int, type[KnowledgeError]]] = [
    (400, InvalidInputError),
    (401, UnauthenticatedError),
    (403, PermissionDeniedError),
    (404, NotFoundError),
    (405, KnowledgeError),
    (409, ConflictError),
    (413, InputTooLargeError),
    (429, ServiceUnavailableError),
    (500, ServiceUnavailableError),
    (503, ServiceUnavailableError),
]


@pytest.mark.parametrize(("status", "kind"), STATUSES)
@pytest.mark.parametrize("body", [b"<html>a proxy says no</html>", b'{"error": {"code": "never_heard"}}', b"[1]", b""])
def test_without_a_known_code_the_status_tells_the_class(
    connect: Connect, service: Service, status: int, kind: type[KnowledgeError], body: bytes
) -> None:
    service.script = [httpx.Response(status, content=body)]
    with pytest.raises(KnowledgeError) as caught:
        connect(retry_for_s=0).collections()
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert str(status) in str(caught.value)
    assert "proxy says" not in str(caught.value)


ODD: list[Any] = [
    httpx.Response(200, text="<html>"),
    httpx.Response(200, json=[]),
    httpx.Response(200, json={"data": [{"name": "x"}]}),
    httpx.Response(200, json={"data": 1}),
    httpx.Response(302, headers={"Location": "https://elsewhere.test"}),
]


@pytest.mark.parametrize("answer", ODD)
def test_an_answer_of_something_else_is_a_wrong_address(
    client: KnowledgeClient, service: Service, answer: httpx.Response
) -> None:
    service.script = [answer]
    with pytest.raises(ConfigurationError, match="base URL"):
        client.collections()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(client: KnowledgeClient, service: Service, status: int) -> None:
    service.script = [httpx.Response(status, headers={"Location": "http://elsewhere.test/kb/knowledge/collections"})]
    with pytest.raises(ConfigurationError, match="base URL"):
        client.put("notes", "d1", "text")
    assert {request.url.host for request in service.requests} == {"service.test"}


def test_readiness_of_something_else_is_no_readiness(client: KnowledgeClient, service: Service) -> None:
    service.script = [httpx.Response(503, text="<html>")]
    with pytest.raises(ServiceUnavailableError):
        client.ready()
    service.script = [httpx.Response(200, json={})]
    with pytest.raises(ConfigurationError):
        client.ready()


def test_no_error_shows_the_token_or_the_content(connect: Connect, service: Service) -> None:
    client = connect(retry_for_s=0)
    for answer in (httpx.ReadTimeout("late"), error(500, "internal"), httpx.Response(200, text="<html>")):
        service.script = [answer]
        with pytest.raises(KnowledgeError) as caught:
            client.put("notes", "a", "confidential words")
        shown = "".join(traceback.format_exception(caught.value, chain=True))
        assert TOKEN not in shown
        assert "confidential" not in str(caught.value)
