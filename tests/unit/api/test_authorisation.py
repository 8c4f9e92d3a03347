from __future__ import annotations

import contextlib
import hmac
import importlib
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from knowledge_worker._bundled import load_api
from knowledge_worker.config import TokenSettings
from knowledge_worker.errors import UnauthenticatedError

ROUTES = [
    ("GET", "/knowledge"),
    ("GET", "/knowledge/"),
    ("GET", "/knowledge/collections"),
    ("GET", "/knowledge/collections/absent"),
    ("GET", "/knowledge/collections/%zz"),
    ("POST", "/knowledge/collections/handbook/sync"),
    ("GET", "/knowledge/collections/handbook/passes"),
    ("GET", "/knowledge/collections/handbook/plan"),
    ("GET", "/knowledge/search"),
    ("POST", "/knowledge/search"),
    ("GET", "/knowledge/nowhere"),
    ("PATCH", "/knowledge/collections"),
    ("OPTIONS", "/knowledge/collections"),
    ("TRACE", "/knowledge/collections"),
    ("GET", "/%6bnowledge/collections"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_without_a_token_everything_below_the_base_is_401(
    client: TestClient, knowledge: Any, method: str, path: str
) -> None:
    answer = client.request(method, path, content=b"x" * 2_000_000)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "unauthenticated"
    assert knowledge.asked == []


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_token_without_the_permission_is_403(nobody: TestClient, knowledge: Any, method: str, path: str) -> None:
    answer = nobody.request(method, path)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "permission_denied"
    assert knowledge.asked == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/knowledge/collections", 200),
        ("HEAD", "/knowledge/collections", 200),
        ("GET", "/knowledge/search?q=x", 200),
        ("POST", "/knowledge/search", 200),
        ("GET", "/knowledge/nowhere", 404),
        ("GET", "/knowledge/collections/%zz", 400),
        ("POST", "/knowledge/nowhere", 403),
        ("POST", "/knowledge/collections/%zz/sync", 403),
        ("POST", "/knowledge/collections/handbook/sync", 403),
        ("DELETE", "/knowledge/search", 200),
        ("PATCH", "/knowledge/collections", 403),
    ],
)
def test_reading_covers_get_head_and_search_only(reader: TestClient, method: str, path: str, status: int) -> None:
    content = json.dumps({"query": "x"}) if path.endswith("search") else None
    answer = reader.request(method, path, content=content)
    assert answer.status_code == (405 if method == "DELETE" else status)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic reader-token-0123456789", "reader-token-0123456789"]
)
def test_what_is_no_known_bearer_token_is_401(client: TestClient, knowledge: Any, header: str) -> None:
    answer = client.get("/knowledge/collections", headers={"Authorization": header})
    assert (answer.status_code, knowledge.asked) == (401, [])


def test_the_scheme_is_compared_without_case(client: TestClient) -> None:
    answer = client.get("/knowledge/collections", headers={"Authorization": "bearer  reader-token-0123456789"})
    assert answer.status_code == 200


def test_two_authorization_headers_are_refused(client: TestClient) -> None:
    header = ("Authorization", "Bearer reader-token-0123456789")
    assert client.get("/knowledge/collections", headers=[header, header]).status_code == 401


def test_tokens_of_other_scripts_are_compared_as_utf8(make_knowledge: Any) -> None:
    token = "schlüssel-ключ-鍵-0123456789"
    knowledge = make_knowledge(tokens=json.dumps([{"value": token, "id": "t", "permissions": ["*"]}]))
    client = TestClient(load_api().create_app(knowledge))
    right = client.get("/knowledge/collections", headers=[(b"Authorization", b"Bearer " + token.encode())])
    wrong = client.get("/knowledge/collections", headers=[(b"Authorization", b"Bearer \xff\xfe")])
    assert (right.status_code, wrong.status_code) == (200, 401)


def test_without_tokens_everything_is_refused_and_the_message_says_what_to_set(make_knowledge: Any) -> None:
    client = TestClient(load_api().create_app(make_knowledge(tokens="[]")))
    answer = client.get("/knowledge/collections", headers={"Authorization": "Bearer x"})
    assert client.get("/healthz").status_code == 200
    assert answer.status_code == 401
    assert "KNOWLEDGE_TOKENS" in answer.json()["error"]["message"]


def test_outside_the_base_no_token_is_needed(client: TestClient) -> None:
    statuses = {path: client.get(path).status_code for path in ("/", "/healthz", "/readyz", "/openapi.json", "/docs")}
    assert set(statuses.values()) == {200}
    assert client.get("/elsewhere").status_code == 404


def test_a_token_is_compared_with_all_in_the_same_steps_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """By digests of equal length, with the comparison that takes the same time for any two."""
    api = load_api()
    auth = importlib.import_module(f"{api.__name__}.auth")
    values = ["first-token-0123456789", "second-token-0123456789-and-longer", "third-token-0123456789"]
    tokens = auth.Tokens(TokenSettings(value=value, id=value[:5], permissions=("*",)) for value in values)
    compared: list[tuple[int, int]] = []

    def noted(known: bytes, given: bytes) -> bool:
        compared.append((len(known), len(given)))
        return hmac.compare_digest(known, given)

    monkeypatch.setattr(auth, "hmac", SimpleNamespace(compare_digest=noted))
    for sent in [*values, values[0][:-1], "", "x" * 5000]:
        with contextlib.suppress(UnauthenticatedError):
            tokens.authorise([(b"authorization", f"Bearer {sent}".encode())], "knowledge:read")

    assert compared == [(32, 32)] * len(values) * 6
    assert not any(value in repr(vars(tokens)) for value in values)
