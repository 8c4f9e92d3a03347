"""Ten thousand documents in one request: all are taken, and the API holds no more than for a thousand."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .conftest import Service

pytestmark = pytest.mark.processes

MANY = 10_000
FEW = 1_000
CONTENT_CHARS = 1_000
GROWTH_MAX_KB = 6_000
"""About half of what the larger request has in its body."""


@pytest.fixture
def stopped_workers(service: Service) -> Iterator[None]:
    """Nothing is embedded meanwhile: that is other tests' business, and takes what a processor has."""
    workers = [process for process in service.deployment.alive if "worker" in process.args]  # type: ignore[operator]
    for process in workers:
        process.send_signal(signal.SIGSTOP)
    yield
    for process in workers:
        process.send_signal(signal.SIGCONT)


def lines(count: int) -> Iterator[bytes]:
    for n in range(count):
        content = f"document {n} " + "x" * CONTENT_CHARS
        yield json.dumps({"id": f"d{n:05}", "content": content}).encode() + b"\n"


def put(client: httpx.Client, address: str, count: int) -> list[dict[str, Any]]:
    answer = client.post(f"{address}/batch", content=lines(count))
    assert answer.status_code == 200
    return [json.loads(line) for line in answer.text.splitlines()]


def peak_kb(pid: int) -> int:
    """The most memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def test_ten_thousand_documents_in_one_request(service: Service, stopped_workers: None) -> None:
    with (
        service.another_api() as (api, url),
        httpx.Client(headers={"Authorization": f"Bearer {service.writer}"}, timeout=240) as client,
    ):
        collections = f"{url}/knowledge/collections"
        for name in ("few", "many"):
            client.post(collections, json={"name": name}).raise_for_status()
        try:
            put(client, f"{collections}/few/documents", FEW)
            before = peak_kb(api.pid)

            *results, summary = put(client, f"{collections}/many/documents", MANY)

            growth = peak_kb(api.pid) - before
            listed = client.get(f"{collections}/many/documents", params={"filter[status]": "pending"}).json()
        finally:
            for name in ("few", "many"):
                client.delete(f"{collections}/{name}").raise_for_status()
    assert summary == {"documents": MANY, "accepted": MANY, "unchanged": 0, "failed": 0}
    assert [(one["line"], one["id"], one["code"]) for one in results] == [(n + 1, f"d{n:05}", 202) for n in range(MANY)]
    assert listed["meta"]["total"] == MANY
    assert growth < GROWTH_MAX_KB
