from __future__ import annotations

from typing import Any

import pytest
import structlog
from starlette.testclient import TestClient
from structlog.testing import capture_logs

import knowledge_worker.errors as every
from knowledge_worker._bundled import load_api

load_api()
from knowledge_worker_api.errors import STATUSES, status_of  # noqa: E402


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (every.InvalidInputError("m"), 400),
        (every.InputTooLargeError("m"), 413),
        (every.UnauthenticatedError("m"), 401),
        (every.PermissionDeniedError("m"), 403),
        (every.CollectionNotFoundError("m"), 404),
        (every.CollectionNotIndexedError("m"), 404),
        (every.DocumentNotFoundError("c", "d"), 404),
        (every.CollectionExistsError("m"), 409),
        (every.CollectionDeclaredError("m"), 409),
        (every.CollectionNotManagedError("m"), 409),
        (every.NoDefaultModelError("m"), 409),
        (every.CollectionNotReadyError("m"), 409),
        (every.CollectionNotAllowedError("m"), 409),
        (every.PreviousModelGoneError("m", "x"), 409),
        (every.EmbeddingRejectedError("m"), 400),
        (every.EmbeddingUnavailableError("m"), 503),
        (every.ServiceUnavailableError("m"), 503),
        (every.ConfigurationError("m"), 500),
        (every.LeaseLostError("m"), 500),
        (ValueError("m"), 500),
    ],
)
def test_the_table(error: Exception, status: int) -> None:
    assert status_of(error) == status
    assert all(issubclass(known, every.KnowledgeError) for known in STATUSES)


@pytest.mark.parametrize(
    "error", [RuntimeError("secret"), every.ConfigurationError("secret"), RecursionError("secret")]
)
def test_an_unexpected_error_is_500_without_its_message(reader: TestClient, knowledge: Any, error: Exception) -> None:
    knowledge.error = error
    with capture_logs() as logs:
        answer = reader.get("/knowledge/collections")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal"
    assert "secret" not in answer.text
    logged = next(entry for entry in logs if entry["event"] == "request_error")
    assert (logged["log_level"], logged["error_type"], logged["exc_info"]) == ("error", type(error).__name__, error)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (every.ServiceUnavailableError("m"), "5"),
        (every.EmbeddingUnavailableError("m"), "5"),
        (every.EmbeddingUnavailableError("m", retry_after_ms=1500), "2"),
        (every.EmbeddingUnavailableError("m", retry_after_ms=0), "1"),
    ],
)
def test_a_503_says_when_to_come_back(reader: TestClient, knowledge: Any, error: Exception, seconds: str) -> None:
    knowledge.error = error
    answer = reader.get("/knowledge/collections")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, seconds)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/knowledge/collections", "GET, HEAD, POST"),
        ("DELETE", "/knowledge/search", "GET, HEAD, POST"),
        ("OPTIONS", "/knowledge/search", "GET, HEAD, POST"),
        ("GET", "/knowledge/collections/handbook/sync", "POST"),
        ("HEAD", "/knowledge/collections/handbook/sync", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("BREW", "/knowledge/search", "GET, HEAD, POST"),
    ],
)
def test_a_wrong_method_is_405_and_the_right_ones_are_named(
    writer: TestClient, method: str, path: str, allow: str
) -> None:
    answer = writer.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allow)
    assert method == "HEAD" or answer.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    "path",
    [
        "/knowledge",
        "/knowledge/",
        "/knowledge/nowhere",
        "/knowledge/collections/",
        "/knowledge/collections/handbook/",
        "/knowledge/collections/handbook/nowhere",
        "/knowledge/search/",
        "//knowledge/collections",
        "/knowledge//collections",
        "/healthz/",
        "/KNOWLEDGE/collections",
    ],
)
def test_another_path_is_404_and_never_a_redirect(writer: TestClient, path: str) -> None:
    answer = writer.get(f"http://testserver{path}", follow_redirects=False)
    assert answer.status_code == 404
    assert set(answer.json()["error"]) == {"code", "message"}


@pytest.mark.parametrize(
    ("method", "path", "known"),
    [
        ("GET", "/knowledge/collections", "there are none here"),
        ("GET", "/knowledge/collections/handbook", "there are none here"),
        ("POST", "/knowledge/collections/handbook/sync", "known here: force, confirmDeletes"),
        ("GET", "/knowledge/collections/handbook/passes", "known here: limit"),
        ("GET", "/knowledge/collections/handbook/plan", "there are none here"),
        ("POST", "/knowledge/search", "there are none here"),
        (
            "GET",
            "/knowledge/search",
            "known here: q, collection, collections, topK, minScore, mode, idPrefix, source, perDocument, explain",
        ),
    ],
)
@pytest.mark.parametrize(
    ("query", "field"),
    [("nope=secret", "nope"), ("top_k=3", "top_k"), ("name=a", "name"), ("x", "x"), ("%ff=1", "\ufffd")],
)
def test_an_unknown_parameter_is_400_and_named_as_it_was_sent(
    writer: TestClient, knowledge: Any, method: str, path: str, known: str, query: str, field: str
) -> None:
    answer = writer.request(method, f"{path}?{query}")
    assert answer.status_code == 400
    assert answer.json() == {
        "error": {"code": "invalid_input", "message": f'"{field}": not known; {known}.', "field": field}
    }
    assert knowledge.asked == []


def test_every_route_below_the_base_refuses_unknown_parameters(writer: TestClient, app: Any) -> None:
    paths = {path: methods for path, methods in app.openapi()["paths"].items() if path.startswith("/knowledge/")}
    answers = [
        writer.request(method, f"{path.replace('{name}', 'handbook').replace('{id}', 'setup.md')}?nope=1")
        for path, methods in paths.items()
        for method in methods
        if not path.startswith("/knowledge/hooks/")  # whose signature comes first
    ]
    assert len(answers) >= 14
    assert {(answer.status_code, answer.json()["error"].get("field")) for answer in answers} == {(400, "nope")}


def test_who_may_not_ask_learns_nothing_of_parameters(client: TestClient) -> None:
    assert client.get("/knowledge/search?nope=1").status_code == 401


def test_outside_of_the_base_other_parameters_do_no_harm(client: TestClient) -> None:
    assert client.get("/healthz?probe=1").status_code == 200


def test_head_answers_as_get_does_without_a_body(reader: TestClient) -> None:
    get, head = reader.get("/knowledge/collections"), reader.head("/knowledge/collections")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


def test_every_request_is_logged_once_with_its_number_and_without_what_was_asked(
    client: TestClient, reader: TestClient
) -> None:
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
        reader.get("/knowledge/search?q=confidential", headers={"X-Request-ID": "abc-1"})
        client.get("/knowledge/search?q=confidential", headers={"Authorization": "Bearer confidential"})
        client.get("/healthz")
    asked, refused, health = logs
    expected = {"event": "request", "request_id": "abc-1", "method": "GET", "path": "/knowledge/search"}
    assert expected.items() <= asked.items()
    assert (asked["status"], asked["token"], asked["log_level"]) == (200, "reader", "info")
    assert (refused["status"], "token" in refused, health["log_level"]) == (401, False, "debug")
    assert len(refused["request_id"]) == 32
    assert "confidential" not in str(logs)


def test_the_number_of_a_request_comes_back(client: TestClient) -> None:
    given = client.get("/healthz", headers={"X-Request-ID": "abc-1"}).headers["x-request-id"]
    odd = client.get("/healthz", headers={"X-Request-ID": "a b\tc"}).headers["x-request-id"]
    assert (given, len(odd)) == ("abc-1", 32)
