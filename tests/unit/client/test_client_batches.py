"""Many documents: how they are split, and how answers find their documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from knowledge_worker.client import AsyncKnowledgeClient, KnowledgeClient
from knowledge_worker.client.batch import BATCH_BYTES, BATCH_DOCUMENTS
from knowledge_worker.client.exchange import Reply
from knowledge_worker.client.flows import END, Emit, Patience, Pull, Send, Sleep, put_many
from knowledge_worker.domain.document import DocumentInput
from knowledge_worker.errors import (
    CollectionNotManagedError,
    InvalidInputError,
    KnowledgeError,
    ServiceUnavailableError,
)

from .conftest import BASE, Connect, Service, error


def lines(request: httpx.Request) -> list[dict[str, Any]]:
    return [json.loads(line) for line in request.content.splitlines()]


def taken(*documents: dict[str, Any], code: int = 202, first: int = 1) -> list[dict[str, Any]]:
    """A result line for each document."""
    return [
        {"line": number, "id": each["id"], "code": code, "status": "pending"}
        for number, each in enumerate(documents, first)
    ]


def ndjson(*answers: dict[str, Any]) -> httpx.Response:
    content = "".join(json.dumps(each) + "\n" for each in answers)
    return httpx.Response(200, content=content, headers={"Content-Type": "application/x-ndjson"})


def stores_all(request: httpx.Request) -> httpx.Response:
    sent = lines(request)
    return ndjson(*taken(*sent), {"documents": len(sent), "accepted": len(sent), "unchanged": 0, "failed": 0})


def documents(count: int) -> Iterator[dict[str, str]]:
    return ({"id": f"d{number}", "content": "x"} for number in range(count))


def test_results_come_in_the_order_of_the_documents(client: KnowledgeClient, service: Service) -> None:
    service.script = [
        ndjson(
            {
                "line": 2,
                "id": "b",
                "code": 400,
                "error": {"code": "invalid_input", "message": "No.", "field": "content"},
            },
            {"line": 1, "id": "a", "code": 202, "status": "pending", "warnings": ["title: cut"]},
            {"line": 3, "id": "c", "code": 200, "status": "ready"},
            {"documents": 3, "accepted": 1, "unchanged": 1, "failed": 1},
        )
    ]
    given = [
        {"id": "a", "content": "x", "title": None},
        {"id": "b", "content": ""},
        DocumentInput(id="c", content="ä", metadata={"n": 1}),
    ]
    first, second, third = client.put_many("notes", given)
    assert (first.position, first.id, first.accepted, first.status) == (0, "a", True, "pending")
    assert (first.warnings, first.error) == (("title: cut",), None)
    assert isinstance(second.error, InvalidInputError)
    assert (second.error.field, second.error.status, second.status, second.accepted) == ("content", 400, None, False)
    assert (third.position, third.id, third.accepted, third.status) == (2, "c", False, "ready")
    (request,) = service.requests
    assert (request.method, service.paths) == ("POST", ["/kb/knowledge/collections/notes/documents/batch"])
    assert request.headers["Content-Type"] == "application/x-ndjson"
    assert request.content.splitlines() == [
        b'{"id":"a","content":"x"}',
        b'{"id":"b","content":""}',
        '{"id":"c","content":"ä","metadata":{"n":1}}'.encode(),
    ]


def test_requests_have_a_bounded_number_of_documents(client: KnowledgeClient, service: Service) -> None:
    service.script = [stores_all]
    results = list(client.put_many("notes", documents(2 * BATCH_DOCUMENTS + 1)))
    assert [one.position for one in results] == list(range(2 * BATCH_DOCUMENTS + 1))
    assert all(one.accepted and one.id == f"d{one.position}" for one in results)
    assert [len(lines(request)) for request in service.requests] == [BATCH_DOCUMENTS, BATCH_DOCUMENTS, 1]


def test_requests_have_a_bounded_number_of_bytes(client: KnowledgeClient, service: Service) -> None:
    service.script = [stores_all]
    large = "x" * 1_000_000
    assert len(list(client.put_many("notes", ({"id": str(n), "content": large} for n in range(12))))) == 12
    assert [len(lines(request)) for request in service.requests] == [5, 5, 2]
    assert all(len(request.content) < BATCH_BYTES + 1_100_000 for request in service.requests)


def test_documents_are_taken_as_results_are(client: KnowledgeClient, service: Service) -> None:
    service.script = [stores_all]
    given: list[str] = []

    def endless() -> Iterator[dict[str, str]]:
        number = 0
        while True:
            given.append(str(number))
            yield {"id": str(number), "content": "x"}
            number += 1

    results = client.put_many("notes", endless())
    assert (given, service.requests) == ([], [])
    assert next(results).id == "0"
    assert len(given) == BATCH_DOCUMENTS


def test_no_documents_are_no_request(client: KnowledgeClient, service: Service) -> None:
    assert list(client.put_many("notes", [])) == []
    assert service.requests == []


@pytest.mark.parametrize(
    ("wrong", "identifier", "field"),
    [
        ({"id": "", "content": "x"}, "", "id"),
        ({"content": "x"}, "", "id"),
        ({"id": "b", "content": "x", "metadata": {"n": float("inf")}}, "b", "metadata"),
        ("no document", "", None),
    ],
)
def test_what_cannot_be_sent_is_refused_here_and_the_others_are_sent(
    client: KnowledgeClient, service: Service, wrong: Any, identifier: str, field: str | None
) -> None:
    service.script = [stores_all]
    first, second, third = client.put_many("notes", [{"id": "a", "content": "x"}, wrong, {"id": "c", "content": "x"}])
    assert (first.id, third.id, first.accepted, third.accepted) == ("a", "c", True, True)
    assert isinstance(second.error, InvalidInputError)
    assert (second.position, second.id, second.error.field) == (1, identifier, field)
    assert [each["id"] for each in lines(service.requests[0])] == ["a", "c"]


def test_a_refused_request_ends_it(client: KnowledgeClient, service: Service) -> None:
    service.script = [stores_all, error(409, "collection_not_managed")]
    results = client.put_many("notes", documents(BATCH_DOCUMENTS + 1))
    assert len([next(results) for _ in range(BATCH_DOCUMENTS)]) == BATCH_DOCUMENTS
    with pytest.raises(CollectionNotManagedError):
        next(results)


@pytest.mark.parametrize(
    "failure", [httpx.ReadTimeout("late"), httpx.ConnectError("refused"), error(503, "unavailable")]
)
def test_a_request_without_an_answer_is_sent_again_as_it_was(
    client: KnowledgeClient, service: Service, failure: Any
) -> None:
    service.script = [failure, stores_all]
    assert [one.id for one in client.put_many("notes", documents(3))] == ["d0", "d1", "d2"]
    assert service.requests[0].content == service.requests[1].content


@pytest.mark.parametrize(
    "answers",
    [
        [{"documents": 2, "accepted": 2, "unchanged": 0, "failed": 0}],
        taken({"id": "d0"}),
        taken({"id": "d0"}, {"id": "other"}),
        taken({"id": "d0"}, {"id": "d1"}, {"id": "d2"}),
    ],
)
def test_an_answer_about_other_documents_is_an_error(
    connect: Connect, service: Service, answers: list[dict[str, Any]]
) -> None:
    service.script = [ndjson(*answers)]
    with pytest.raises(ServiceUnavailableError):
        list(connect(retry_for_s=0).put_many("notes", documents(2)))


def test_asynchronous_documents_are_taken_one_by_one(service: Service) -> None:
    import anyio

    service.script = [stores_all]

    async def given() -> Any:
        for each in documents(2):
            yield each

    async def run() -> list[str]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(service.later)) as http:
            client = AsyncKnowledgeClient(BASE, http=http)
            return [one.id async for one in client.put_many("notes", given())]

    assert anyio.run(run) == ["d0", "d1"]


# Answers that break off need no client: the flow is told of them.

Outcomes = list[Reply]


def broken(*answers: dict[str, Any], half: str = '{"line": 9, "id"') -> Reply:
    body = "".join(json.dumps(each) + "\n" for each in answers) + half
    return Reply(status=200, headers={}, body=body.encode(), broken=httpx.RemoteProtocolError("closed"))


def whole(*answers: dict[str, Any]) -> Reply:
    return Reply(status=200, headers={}, body=ndjson(*answers).content)


def played(count: int, outcomes: Outcomes) -> tuple[list[list[str]], list[Any], KnowledgeError | None]:
    """What each request held, the results, and the error at the end."""
    patience = Patience(address="http://x", retry_for_s=1.0, now=lambda: 0.0, jitter=lambda: 1.0)
    flow, given, left = put_many("notes", patience=patience), documents(count), iter(outcomes)
    sent: list[list[str]] = []
    results: list[Any] = []
    answer: Any = None
    while True:
        try:
            step = flow.send(answer)
        except StopIteration:
            return sent, results, None
        except KnowledgeError as failed:
            return sent, results, failed
        answer = None
        match step:
            case Pull():
                answer = next(given, END)
            case Send(request):
                sent.append([json.loads(line)["id"] for line in (request.body or b"").splitlines()])
                answer = next(left)
            case Sleep():
                pass
            case Emit(value):
                results.append(value)


def test_after_an_answer_that_broke_off_only_the_unanswered_are_sent_again() -> None:
    sent, results, failed = played(
        3, [broken(*taken({"id": "d0"}, {"id": "d1"})), broken(half=""), whole(*taken({"id": "d2"}))]
    )
    assert sent == [["d0", "d1", "d2"], ["d2"], ["d2"]]
    assert ([one.position for one in results], failed) == ([0, 1, 2], None)


def test_a_document_that_cannot_be_stored_just_now_is_sent_again() -> None:
    busy = {"line": 2, "id": "d1", "code": 503, "error": {"code": "unavailable", "message": "Away."}}
    sent, results, failed = played(2, [whole(*taken({"id": "d0"}), busy), whole(*taken({"id": "d1"}))])
    assert sent == [["d0", "d1"], ["d1"]]
    assert [(one.id, one.error) for one in results] == [("d0", None), ("d1", None)]
    assert failed is None


def test_what_cannot_be_stored_for_long_gets_that_as_its_result() -> None:
    busy = {"code": 503, "error": {"code": "unavailable", "message": "Away."}}
    answers = [whole({**busy, "line": 1, "id": "d0"})] * 20
    patience_ends, results, failed = played(1, answers)
    assert failed is None
    assert 1 < len(patience_ends) <= 20
    assert isinstance(results[0].error, ServiceUnavailableError)


def test_results_that_are_known_are_handed_over_before_the_error() -> None:
    sent, results, failed = played(3, [broken(*taken({"id": "d0"})), Reply(status=500, headers={}, body=b"")])
    assert sent == [["d0", "d1", "d2"], ["d1", "d2"]]
    assert [one.id for one in results] == ["d0"]
    assert isinstance(failed, ServiceUnavailableError)
