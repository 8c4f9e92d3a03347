"""Managed collections with real processes: writers while workers die, Redis away, a put that is soon found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from knowledge_worker.embedded.servers import Servers, start_servers
from knowledge_worker.testing.deployment import TOKEN, Deployment
from knowledge_worker.testing.provider import ScriptedProvider

ROOT = Path(__file__).parents[2]


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[Servers]:
    """Servers that a test may stop and start."""
    servers = start_servers(tmp_path / "data")
    yield servers
    servers.stop()


@pytest.fixture
def deployment(tmp_path: Path, own_servers: Servers, provider: ScriptedProvider) -> Iterator[Deployment]:
    assert own_servers.database_url is not None
    assert own_servers.redis_url is not None
    environment = {
        "KNOWLEDGE_MODEL": "fake/model-a",
        "KNOWLEDGE_PROVIDERS": json.dumps({"fake": {"base_url": provider.base_url}}),
        "KNOWLEDGE_TICK_MS": "500",
    }
    with Deployment(
        tmp_path / "run",
        database_url=own_servers.database_url,
        redis_url=own_servers.redis_url,
        environment=environment,
    ) as deployment:
        deployment.run("migrate")
        deployment.start_api()
        deployment.start("worker")
        yield deployment


@pytest.fixture
def client(deployment: Deployment) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=f"{deployment.url}/knowledge/", headers=headers, timeout=60) as client:
        client.post("collections", json={"name": "notes"}).raise_for_status()
        yield client


def is_found(client: httpx.Client, text: str, document: str) -> bool:
    answer = client.post("search", json={"query": text, "collections": ["notes"]})
    return answer.status_code == 200 and document in [match["document"] for match in answer.json()["matches"]]


def test_a_put_is_found_through_its_nudge_alone(deployment: Deployment, client: httpx.Client) -> None:
    # No beat runs: without the nudge nothing would ever ask.
    assert client.put("collections/notes/documents/a", json={"content": "apples are red"}).status_code == 202
    deployment.until(lambda: is_found(client, "red apples", "a"), what="the document is found")


def test_a_put_while_redis_is_away_is_accepted_and_indexed_when_it_is_back(
    deployment: Deployment, client: httpx.Client, own_servers: Servers
) -> None:
    deployment.until(lambda: client.get("collections/notes").json()["status"] == "ready", what="the first pass")
    deployment.start("beat")
    valkey = own_servers.parts[0]
    valkey.stop()
    answers = [
        client.put(f"collections/notes/documents/d{n}", json={"content": f"text number {n}"}).status_code
        for n in range(5)
    ]
    assert answers == [202] * 5
    missing = httpx.get(f"{deployment.url}/readyz").json()["missing"]
    assert any("redis" in line.lower() for line in missing)
    valkey.start()
    deployment.until(
        lambda: client.get("collections/notes").json()["documents"]["ready"] == 5,
        what="what was put while Redis was away is indexed",
    )
    assert is_found(client, "text number 3", "d3")


def test_what_writers_were_promised_holds_while_workers_die() -> None:
    arguments = ["--writers", "40", "--collections", "5", "--seconds", "10", "--kill-every", "2"]
    ended = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "writers.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    assert "everything that was accepted is there" in ended.stdout
