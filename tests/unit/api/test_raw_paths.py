"""Paths as a client sends them: a socket against a real server, since HTTP libraries tidy paths up."""

from __future__ import annotations

import functools
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from knowledge_worker._bundled import load_api
from knowledge_worker.testing import raw_http

TOKEN = "Authorization: Bearer writer-token-0123456789"
exchange = functools.partial(raw_http.exchange, headers=(TOKEN,))
Send = Callable[..., tuple[int, dict[str, str], Any]]


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., int]]:
    """Starts servers on free ports; answers the port."""
    running: list[tuple[uvicorn.Server, threading.Thread, socket.socket]] = []

    def start(app: Any, **options: Any) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False, http="h11", **options))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        running.append((server, thread, listener))
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        return listener.getsockname()[1]

    yield start
    for server, thread, listener in running:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="module")
def port(serve: Callable[..., int], shared: tuple[Any, Any]) -> int:
    return serve(shared[1])


@pytest.fixture
def send(port: int, knowledge: Any) -> Send:
    """Sends one request, its target as given; answers status, headers and JSON."""
    return lambda target, **options: exchange(port, target, **options)


@pytest.mark.parametrize(
    ("segment", "identifier"),
    [
        ("plain.md", "plain.md"),
        ("a%2Fb", "a/b"),
        ("a%2fb", "a/b"),
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("%C3%A4", "ä"),
        ("%F0%9F%92%A9", "💩"),
        ("%2F", "/"),
        ("%252F", "%2F"),
        ("%25252F", "%252F"),
        ("..", ".."),
        (".", "."),
        ("%2e%2E", ".."),
        ("..%2F..%2Fetc", "../../etc"),
        ("%0A", "\n"),
        ("a%0D%0Ab", "a\r\nb"),
        ("%3F%23", "?#"),
        ("%7Bid%7D", "{id}"),
        ("a;b=c:d@e!$&'()*,", "a;b=c:d@e!$&'()*,"),
        ("sync", "sync"),
        ("batch", "batch"),
        ("a" * 255, "a" * 255),
        ("%C3%A4" * 255, "ä" * 255),
    ],
)
def test_a_segment_is_decoded_exactly_once(send: Send, knowledge: Any, segment: str, identifier: str) -> None:
    path = f"/knowledge/collections/hand%62ook/documents/{segment}"
    status, _, answer = send(path)
    assert (status, answer["id"]) == (200, identifier)
    content = b'{"content": "x"}'
    assert send(path, method="PUT", headers=(TOKEN, f"Content-Length: {len(content)}"), body=content)[0] == 202
    assert send(path, method="DELETE")[0] == 204
    assert [call[1:3] for call in knowledge.asked] == [("handbook", identifier)] * 3


@pytest.mark.parametrize("segment", ["", "%00", "a%00b", "a" * 256, "%C3%A4" * 256])
def test_an_id_that_no_document_can_have_is_400(send: Send, knowledge: Any, segment: str) -> None:
    path = f"/knowledge/collections/absent/documents/{segment}"
    content = b'{"content": "x"}'
    answers = [
        send(path),
        send(path, method="PUT", headers=(TOKEN, f"Content-Length: {len(content)}"), body=content),
        send(path, method="DELETE"),
    ]
    assert [(status, answer["error"]["field"]) for status, _, answer in answers] == [(400, "id")] * 3
    assert knowledge.asked == []


@pytest.mark.parametrize("segment", ["%zz", "%", "%4", "a%", "%C3", "%ff", "%ED%A0%80", "%C0%AF", "%2", "%u0041"])
def test_an_undecodable_segment_is_400_on_any_path(send: Send, segment: str) -> None:
    paths = [
        f"/knowledge/collections/absent/documents/{segment}",
        f"/knowledge/collections/{segment}",
        f"/knowledge/{segment}",
        f"/{segment}",
    ]
    answers = [send(path) for path in paths]
    assert [status for status, _, _ in answers] == [400] * 4
    assert {answer["error"]["code"] for _, _, answer in answers} == {"invalid_input"}


@pytest.mark.parametrize(
    "target",
    [
        "/knowledge/../healthz",
        "/knowledge/./collections",
        "/knowledge/%2e%2e/healthz",
        "/knowledge%2Fcollections",
        "/knowledge/collections%2Fhandbook",
        "/knowledge/collections/a/b/documents/c",
        "/knowledge/collections/handbook/documents/a/b",
        "/healthz/../knowledge/collections",
        "//knowledge/collections",
        "/knowledge//collections",
        "*",
        "http://elsewhere/knowledge/collections",
    ],
)
def test_paths_are_not_tidied_up(send: Send, target: str) -> None:
    assert send(target)[0] == 404


def test_precedence_is_401_then_403_then_400_then_404(send: Send) -> None:
    bad, absent = "/knowledge/collections/absent/documents/%zz", "/knowledge/collections/absent"
    known_but_powerless = "Authorization: Bearer nobody-token-0123456789"
    assert send(bad, headers=())[0] == 401
    assert send(bad, headers=(known_but_powerless,))[0] == 403
    assert send(bad, method="PUT", headers=("Authorization: Bearer reader-token-0123456789",))[0] == 403
    assert send(bad)[0] == 400
    assert send(absent)[0] == 404


@pytest.mark.parametrize(
    "target", ["/knowledge/collections", "/knowledge/../healthz", "/%6B%6eowledge/collections", "/knowledge/%zz"]
)
def test_no_spelling_of_the_base_avoids_the_token(send: Send, knowledge: Any, target: str) -> None:
    assert send(target, headers=())[0] == 401
    assert knowledge.asked == []


def test_head_has_headers_only(send: Send) -> None:
    status, headers, content = send("/knowledge/collections", method="HEAD")
    assert (status, content) == (200, b"")
    assert int(headers["content-length"]) > 0


def test_a_body_is_refused_by_its_declared_length_before_it_is_sent(send: Send) -> None:
    headers = (TOKEN, "Content-Length: 5000000000")
    status, _, answer = send("/knowledge/search", method="POST", headers=headers)
    assert (status, answer["error"]["code"]) == (413, "too_large")


def test_a_chunked_body_is_refused_where_it_passes_the_limit(send: Send) -> None:
    chunk = b"%x\r\n%s\r\n" % (65_536, b" " * 65_536)
    headers = (TOKEN, "Transfer-Encoding: chunked")
    status, _, answer = send("/knowledge/search", method="POST", headers=headers, body=chunk * 17)
    assert (status, answer["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize(("token", "status"), [(TOKEN, 413), ("X-Token: none", 401)])
def test_a_client_that_sends_a_large_body_whole_still_reads_the_answer(
    port: int, knowledge: Any, token: str, status: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        for _ in range(2):  # the second request shows that the connection is still in step
            name, _, value = token.partition(": ")
            connection.request("POST", "/knowledge/search", body=b" " * 20_000_000, headers={name: value})
            answer = connection.getresponse()
            assert (answer.status, list(json.load(answer))) == (status, ["error"])
    finally:
        connection.close()


def test_mounted_below_a_prefix(serve: Callable[..., int], shared: tuple[Any, Any], knowledge: Any) -> None:
    outer = FastAPI()
    outer.mount("/deep/er", shared[1])
    port = serve(outer)
    status, _, answer = exchange(port, "/deep/er/knowledge/collections/c/documents/a%2Fb")
    assert (status, answer["id"]) == (200, "a/b")
    assert exchange(port, "/deep/er/knowledge/collections", headers=())[0] == 401
    assert exchange(port, "/deep/er/knowledge/%zz")[0] == 400
    assert exchange(port, "/deep/er/knowledge/search", method="DELETE")[1]["allow"] == "GET, HEAD, POST"
    assert exchange(port, "/deep/er/")[2]["links"]["openapi"] == "/deep/er/openapi.json"
    assert exchange(port, "/deep/er/openapi.json")[2]["servers"] == [{"url": "/deep/er"}]
    assert exchange(port, "/knowledge/collections")[0] == 404


def test_a_root_path_of_the_server(serve: Callable[..., int], shared: tuple[Any, Any], knowledge: Any) -> None:
    port = serve(shared[1], root_path="/prefix")
    status, _, answer = exchange(port, "/knowledge/collections/c/documents/a%2Fb")
    assert (status, answer["id"]) == (200, "a/b")
    assert exchange(port, "/knowledge/collections", headers=())[0] == 401


@pytest.mark.parametrize("configured", ["/prefix/x", "prefix/x", "/prefix/x/"])
def test_a_configured_root_path_with_and_without_a_proxy_that_removes_it(make_knowledge: Any, configured: str) -> None:
    fake = make_knowledge(root_path=configured)
    headers = {"Authorization": "Bearer writer-token-0123456789"}
    client = TestClient(load_api().create_app(fake), headers=headers)
    for prefix in ("", "/prefix/x", "/prefix/%78"):
        answer = client.get(f"{prefix}/knowledge/collections/c/documents/a%2Fb")
        assert (answer.status_code, answer.json()["id"]) == (200, "a/b")
        assert client.get(f"{prefix}/knowledge/collections", headers={"Authorization": ""}).status_code == 401
    assert client.get("/openapi.json").json()["servers"] == [{"url": "/prefix/x"}]
    assert client.get("/prefix/knowledge/collections").status_code == 404


def test_mounted_in_an_application_behind_a_proxy_that_removes_its_prefix(shared: tuple[Any, Any]) -> None:
    outer = FastAPI()
    outer.mount("/deep", shared[1])
    client = TestClient(outer, root_path="/proxy", headers={"Authorization": "Bearer writer-token-0123456789"})
    answer = client.get("/deep/knowledge/collections/c/documents/a%2Fb")
    assert (answer.status_code, answer.json()["id"]) == (200, "a/b")


def test_a_server_without_raw_paths_still_works(shared: tuple[Any, Any], knowledge: Any) -> None:
    app = shared[1]

    async def without_raw_path(scope: Any, receive: Any, send: Any) -> None:
        await app({name: value for name, value in scope.items() if name != "raw_path"}, receive, send)

    client = TestClient(without_raw_path, headers={"Authorization": "Bearer writer-token-0123456789"})
    assert client.get("/knowledge/collections/c/documents/a%20b").json()["id"] == "a b"
