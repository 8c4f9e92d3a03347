"""The page of a process that serves nothing else."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

import httpx
import pytest
from pydantic import SecretStr

from knowledge_worker.telemetry.endpoint import MetricsServer
from knowledge_worker.telemetry.prometheus import CONTENT_TYPE

TOKEN = "metrics-token-0123456789"


def serving(port: int = 0, token: str | None = None, host: str = "127.0.0.1") -> MetricsServer:
    secret = None if token is None else SecretStr(token)
    return MetricsServer(lambda: b"knowledge_up 1\n", host=host, port=port, token=secret)


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    server = serving()
    yield server
    server.close()


def test_it_answers_the_metrics_and_nothing_else(server: MetricsServer) -> None:
    base = f"http://127.0.0.1:{server.port}"
    answer = httpx.get(f"{base}/metrics?x=1")
    assert (answer.status_code, answer.text, answer.headers["content-type"]) == (200, "knowledge_up 1\n", CONTENT_TYPE)
    assert httpx.get(f"{base}/").status_code == 404
    assert httpx.post(f"{base}/metrics").status_code == 501


def test_a_second_one_takes_the_next_free_port(server: MetricsServer) -> None:
    second = serving(port=server.port)
    try:
        assert server.port < second.port < server.port + 100
        assert httpx.get(f"http://127.0.0.1:{second.port}/metrics").status_code == 200
    finally:
        second.close()


def test_an_address_of_another_machine_is_refused_at_once() -> None:
    with pytest.raises(OSError) as refused:
        serving(host="192.0.2.1")
    assert refused.value.errno == errno.EADDRNOTAVAIL


def test_the_last_port_there_is_has_no_next_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 65_535))
        taken.listen()
        with pytest.raises(OSError) as refused:
            serving(port=65_535)
    assert refused.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize("given", ["", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", "Bearer \xe9"])
def test_where_a_token_is_set_only_it_reads_them(given: str) -> None:
    server = serving(token=TOKEN)
    url = f"http://127.0.0.1:{server.port}/metrics"
    try:
        refused = httpx.get(url, headers={"Authorization": given.encode("latin-1")} if given else {})
        assert (refused.status_code, refused.headers["www-authenticate"], refused.text) == (401, "Bearer", "")
        assert httpx.get(url, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    finally:
        server.close()
