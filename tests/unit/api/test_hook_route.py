"""Webhooks: a signature instead of a token, and a sync of the hook's collections."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from knowledge_worker.config import load_settings
from knowledge_worker.errors import ConfigurationError

URL = "/knowledge/hooks/docs-push"
BODY = b'{"ref": "refs/heads/main"}'

Sign = Callable[[bytes], dict[str, str]]


@pytest.fixture
def sign(hook_secret: bytes) -> Sign:
    def signed(body: bytes) -> dict[str, str]:
        return {"X-Hub-Signature-256": f"sha256={hmac.new(hook_secret, body, hashlib.sha256).hexdigest()}"}

    return signed


def syncs(knowledge: Any) -> list[str]:
    return [call[1] for call in knowledge.asked if call[0] == "sync"]


@pytest.mark.parametrize("body", [BODY, b"", b"payload=%7B%7D", b"\xff\x00", b"x" * 3_000_000])
def test_a_signed_request_asks_for_a_sync_whatever_its_body(
    client: TestClient, knowledge: Any, sign: Sign, body: bytes
) -> None:
    answer = client.post(URL, content=body, headers=sign(body))
    assert (answer.status_code, answer.json()) == (202, {"collections": ["handbook"]})
    assert syncs(knowledge) == ["handbook"]


def test_a_replayed_request_can_ask_for_the_same_sync_and_for_nothing_else(
    client: TestClient, knowledge: Any, sign: Sign
) -> None:
    """A request is not marked as used; what asking again costs is a read, and requests that wait are one."""
    headers = sign(BODY)
    assert [client.post(URL, content=BODY, headers=headers).status_code for _ in range(3)] == [202] * 3
    assert client.post(f"{URL}?force=true", content=BODY, headers=headers).status_code == 400
    assert client.post("/knowledge/collections/handbook/sync", content=BODY, headers=headers).status_code == 401
    assert knowledge.asked == [("sync", "handbook", False, False)] * 3


def test_a_token_is_neither_needed_nor_enough(writer: TestClient, knowledge: Any, sign: Sign) -> None:
    assert writer.post(URL, content=BODY).status_code == 401
    assert syncs(knowledge) == []
    assert writer.post(URL, content=BODY, headers=sign(BODY)).status_code == 202


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256="},
        {"X-Hub-Signature-256": "sha256=" + "0" * 64},
        {"X-Hub-Signature-256": "0" * 64},
        {"X-Hub-Signature-256": "sha1=" + "0" * 40},
        {"X-Hub-Signature-256": "sha256=" + "g" * 64},
        {"X-Hub-Signature-256": "sha256=" + "\u0660".encode("utf-8").decode("latin-1") * 32},
        {"X-Hub-Signature": "sha1=" + "0" * 40},
    ],
)
def test_without_the_right_signature_it_is_401(client: TestClient, knowledge: Any, headers: dict[str, str]) -> None:
    answer = client.post(URL, content=BODY, headers={name: value.encode("latin-1") for name, value in headers.items()})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "X-Hub-Signature-256"
    assert syncs(knowledge) == []


def test_a_signature_of_another_body_or_two_of_them_are_401(client: TestClient, knowledge: Any, sign: Sign) -> None:
    assert client.post(URL, content=BODY + b" ", headers=sign(BODY)).status_code == 401
    right = next(iter(sign(BODY).values()))
    twice = [("X-Hub-Signature-256", right), ("X-Hub-Signature-256", right)]
    assert client.post(URL, content=BODY, headers=twice).status_code == 401
    assert syncs(knowledge) == []


def test_upper_case_digits_are_the_same(client: TestClient, sign: Sign) -> None:
    value = next(iter(sign(BODY).values()))
    headers = {"X-Hub-Signature-256": f"sha256={value.removeprefix('sha256=').upper()}"}
    assert client.post(URL, content=BODY, headers=headers).status_code == 202


def test_an_unknown_hook_is_404(client: TestClient, sign: Sign) -> None:
    assert client.post("/knowledge/hooks/nowhere", content=BODY, headers=sign(BODY)).status_code == 404


def test_of_several_collections_each_is_asked_for_though_one_is_missing(
    client: TestClient, knowledge: Any, sign: Sign
) -> None:
    answer = client.post("/knowledge/hooks/two", content=BODY, headers=sign(BODY))
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "collection_not_found")
    assert syncs(knowledge) == ["absent", "handbook"]


def test_a_body_over_25_mib_is_413(client: TestClient, knowledge: Any, sign: Sign) -> None:
    parts = (b"x" * 1_048_576 for _ in range(26))
    assert client.post(URL, content=parts, headers=sign(b"")).status_code == 413
    assert syncs(knowledge) == []


def test_a_parameter_is_refused_only_to_who_can_sign(client: TestClient, sign: Sign) -> None:
    assert client.post(f"{URL}?force=true", content=BODY).status_code == 401
    assert client.post(f"{URL}?force=true", content=BODY, headers=sign(BODY)).status_code == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", URL),
        ("PUT", URL),
        ("POST", "/knowledge/hooks"),
        ("POST", "/knowledge/hooks/"),
        ("POST", f"{URL}/more"),
        ("POST", "/knowledge/hooks/%zz"),
        ("POST", "/knowledge/hooks%2Fdocs-push"),
    ],
)
def test_nothing_else_below_hooks_does_without_a_token(client: TestClient, sign: Sign, method: str, path: str) -> None:
    assert client.request(method, f"http://testserver{path}", content=BODY, headers=sign(BODY)).status_code in (
        401,
        404,
    )


@pytest.mark.parametrize(
    "hooks",
    [
        "{",
        "[]",
        json.dumps({"a": {"secret": "short", "collections": ["docs"]}}),
        json.dumps({"a": {"secret": "x" * 16, "collections": []}}),
        json.dumps({"A B": {"secret": "x" * 16, "collections": ["docs"]}}),
        json.dumps({"a": {"secret": "x" * 16, "collections": ["Docs"]}}),
        json.dumps({"a": {"secret": "x" * 16, "collections": ["docs"], "extra": 1}}),
    ],
)
def test_hooks_that_cannot_work_are_said_without_their_secret(monkeypatch: pytest.MonkeyPatch, hooks: str) -> None:
    monkeypatch.setenv("KNOWLEDGE_HOOKS", hooks)
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_HOOKS") as raised:
        load_settings()
    assert "xxxx" not in raised.value.message
