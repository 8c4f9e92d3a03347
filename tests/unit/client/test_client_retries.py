"""Which requests are sent again, after what, and how long the waits are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from knowledge_worker.client import KnowledgeClient, flows, operations
from knowledge_worker.client.exchange import Lost, Operation, Reply
from knowledge_worker.errors import (
    CollectionNotFoundError,
    DocumentNotFoundError,
    KnowledgeError,
    PreconditionFailedError,
    ServiceUnavailableError,
)

from .conftest import Connect, Service, collection, document, error

Call = Callable[[KnowledgeClient], Any]

SAFE: dict[str, tuple[Call, httpx.Response]] = {
    "collections": (lambda c: c.collections(), httpx.Response(200, json={"data": []})),
    "collection": (lambda c: c.collection("n"), httpx.Response(200, json=collection())),
    "document": (lambda c: c.document("n", "a"), httpx.Response(200, json=document())),
    "put": (lambda c: c.put("n", "a", "x"), httpx.Response(202, json={"status": "pending"})),
    "delete": (lambda c: c.delete("n", "a"), httpx.Response(204)),
    "delete_if": (lambda c: c.delete("n", "a", if_match='"1"'), httpx.Response(204)),
    "delete_collection": (lambda c: c.delete_collection("n"), httpx.Response(204)),
    "sync": (lambda c: c.sync("n"), httpx.Response(202, json={"name": "n"})),
    "search": (lambda c: c.search("q"), httpx.Response(200, json={"matches": [], "truncated": False})),
}
UNSAFE: dict[str, tuple[Call, httpx.Response]] = {
    "create_collection": (lambda c: c.create_collection("n"), httpx.Response(201, json=collection())),
    "put_if": (lambda c: c.put("n", "a", "x", if_match='"1"'), httpx.Response(200, json={"status": "ready"})),
    "put_new": (lambda c: c.put("n", "a", "x", create_only=True), httpx.Response(200, json={"status": "ready"})),
}
UNSENT = [httpx.ConnectError("refused"), httpx.ConnectTimeout("late"), httpx.PoolTimeout("late")]
LOST = [httpx.ReadTimeout("late"), httpx.RemoteProtocolError("gone"), httpx.ReadError("reset"), httpx.WriteError("x")]
BUSY = [error(503, "unavailable"), error(429, "busy"), httpx.Response(502, text="<html>"), httpx.Response(504)]


def named(answer: httpx.Response | Exception) -> str:
    return str(answer.status_code) if isinstance(answer, httpx.Response) else type(answer).__name__


@pytest.mark.parametrize("failure", [*UNSENT, *LOST, *BUSY], ids=named)
@pytest.mark.parametrize(("call", "answer"), SAFE.values(), ids=list(SAFE))
def test_what_may_be_done_twice_is_sent_again(
    client: KnowledgeClient, service: Service, call: Call, answer: httpx.Response, failure: httpx.Response | Exception
) -> None:
    service.script = [failure, failure, answer]
    call(client)
    assert len(service.requests) == 3
    assert len({(request.method, request.url, request.content) for request in service.requests}) == 1


@pytest.mark.parametrize("failure", [*LOST, *BUSY], ids=named)
@pytest.mark.parametrize(("call", "answer"), UNSAFE.values(), ids=list(UNSAFE))
def test_what_may_have_been_done_is_not_sent_again(
    client: KnowledgeClient, service: Service, call: Call, answer: httpx.Response, failure: httpx.Response | Exception
) -> None:
    service.script = [failure, answer]
    with pytest.raises(ServiceUnavailableError):
        call(client)
    assert len(service.requests) == 1


@pytest.mark.parametrize("failure", UNSENT, ids=named)
@pytest.mark.parametrize(("call", "answer"), UNSAFE.values(), ids=list(UNSAFE))
def test_what_never_left_is_sent_again_in_any_case(
    client: KnowledgeClient, service: Service, call: Call, answer: httpx.Response, failure: Exception
) -> None:
    service.script = [failure, answer]
    call(client)
    assert len(service.requests) == 2


LASTING = [
    httpx.Response(500),
    error(400, "invalid_input"),
    error(404, "collection_not_found"),
    error(409, "conflict"),
    httpx.Response(301, headers={"Location": "https://service.test"}),
    httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"),
    httpx.TooManyRedirects("20"),
]


@pytest.mark.parametrize("failure", LASTING, ids=named)
def test_what_would_end_the_same_way_is_not_sent_again(
    client: KnowledgeClient, service: Service, failure: httpx.Response | Exception
) -> None:
    service.script = [failure]
    with pytest.raises(KnowledgeError):
        client.collections()
    assert len(service.requests) == 1


def test_without_patience_there_is_one_try(connect: Connect, service: Service) -> None:
    service.script = [httpx.ReadTimeout("late")]
    with pytest.raises(ServiceUnavailableError, match=r"service\.test/kb did not answer in time"):
        connect(retry_for_s=0).collections()
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "failure", [httpx.ReadTimeout("late"), error(503, "unavailable"), httpx.Response(502)], ids=named
)
def test_a_deletion_that_was_lost_and_finds_nothing_has_succeeded(
    client: KnowledgeClient, service: Service, failure: httpx.Response | Exception
) -> None:
    service.script = [failure, error(404, "document_not_found")]
    client.delete("n", "a")
    service.script = [failure, error(404, "collection_not_found")]
    client.delete_collection("n")
    assert len(service.requests) == 4


def test_a_deletion_that_certainly_did_nothing_tells_what_it_did_not_find(
    client: KnowledgeClient, service: Service
) -> None:
    service.script = [error(404, "document_not_found")]
    with pytest.raises(DocumentNotFoundError):
        client.delete("n", "a")
    service.script = [httpx.ConnectError("refused"), error(404, "document_not_found")]
    with pytest.raises(DocumentNotFoundError):
        client.delete("n", "a")


def test_a_lost_deletion_does_not_hide_another_error(client: KnowledgeClient, service: Service) -> None:
    service.script = [httpx.ReadTimeout("late"), error(404, "collection_not_found")]
    with pytest.raises(CollectionNotFoundError):
        client.delete("n", "a")
    service.script = [httpx.ReadTimeout("late"), error(412, "precondition_failed")]
    with pytest.raises(PreconditionFailedError):
        client.delete("n", "a", if_match='"1"')


class Clock:
    """Time passes only while a flow sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def waits(operation: Operation[Any], *outcomes: Any, retry_for_s: float = 60.0) -> tuple[list[float], Any]:
    """The waits of a flow that meets these outcomes, and its result or error."""
    clock = Clock()
    patience = flows.Patience(address="http://x", retry_for_s=retry_for_s, now=clock, jitter=lambda: 1.0)
    flow = flows.perform(operation, patience)
    slept: list[float] = []
    left = iter(outcomes)
    answer: Any = None
    while True:
        try:
            step = flow.send(answer)
        except StopIteration as end:
            return slept, end.value
        except KnowledgeError as failed:
            return slept, failed
        if isinstance(step, flows.Sleep):
            slept.append(step.seconds)
            clock.now += step.seconds
            answer = None
        else:
            assert isinstance(step, flows.Send)
            answer = next(left)


def busy(**headers: str) -> Reply:
    return Reply(status=503, headers=httpx.Headers(headers), body=b"")


DONE = Reply(status=200, headers={}, body=b'{"data": []}')


def test_waits_double_up_to_a_longest() -> None:
    slept, result = waits(operations.collections(), *[Lost(httpx.ReadTimeout("late"))] * 7, DONE)
    assert slept == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert result == []


def test_the_service_may_ask_for_a_longer_wait_but_not_for_a_shorter_one() -> None:
    date = busy(date="Sat, 31 Jan 2026 12:00:00 GMT", **{"retry-after": "Sat, 31 Jan 2026 12:00:09 GMT"})
    odd = busy(**{"retry-after": "soon"})
    slept, _ = waits(
        operations.collections(), busy(**{"retry-after": "7"}), busy(**{"retry-after": "0"}), date, odd, DONE
    )
    assert slept == [7.0, 0.4, 9.0, 1.6]


def test_a_wait_that_would_end_too_late_is_not_begun() -> None:
    wish = busy(**{"retry-after": "900"})
    slept, result = waits(operations.collections(), wish, DONE)
    assert (slept, type(result), result.status) == ([], ServiceUnavailableError, 503)
    slept, result = waits(operations.collections(), *[Lost(httpx.ReadTimeout("late"))] * 9, retry_for_s=3.1)
    assert slept == [0.2, 0.4, 0.8, 1.6]
    assert isinstance(result, ServiceUnavailableError)
    assert isinstance(result.__cause__, httpx.ReadTimeout)


def test_jitter_shortens_a_wait_by_half_at_most() -> None:
    drawn = [flows.Patience(address="x", retry_for_s=1).jitter() for _ in range(200)]
    assert 0.5 <= min(drawn) < 0.7
    assert 0.8 < max(drawn) <= 1


def test_an_answer_that_breaks_off_is_none() -> None:
    half = Reply(status=200, headers={}, body=b'{"da', broken=httpx.RemoteProtocolError("closed"))
    assert waits(operations.collections(), half, DONE)[1] == []
