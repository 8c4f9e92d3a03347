"""Each process of compose.yaml, started by the command written there and watched by the health check written there."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import psycopg
import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
TOKEN = "0123456789abcdef"
READY_S = 90.0
"""No measure of speed: what is not ready by then never will be."""
STOP_S = 30.0
"""``stop_grace_period``."""

pytestmark = pytest.mark.processes


class ServersLike(Protocol):
    database_url: str
    redis_url: str


@dataclass(frozen=True, kw_only=True)
class Composition:
    """What runs, and how to look at it."""

    processes: dict[str, subprocess.Popen[bytes]]
    checks: dict[str, list[str]]
    environments: dict[str, dict[str, str]]
    logs: Path
    api_port: int

    def is_healthy(self, name: str) -> bool:
        """Run the service's health check as Docker would."""
        done = subprocess.run(self.checks[name], env=self.environments[name], capture_output=True, timeout=60)
        return done.returncode == 0

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = Request(
            f"http://127.0.0.1:{self.api_port}/knowledge{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )
        with urlopen(request, timeout=30) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def composition(servers: ServersLike, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composition]:
    home = tmp_path_factory.mktemp("compose")
    (home / "docs").mkdir()
    (home / "docs" / "parental-leave.md").write_text(
        "# Parental leave\n\nEvery parent may take sixteen weeks of paid leave.\n", encoding="utf-8"
    )
    (home / "docs" / "expenses.md").write_text(
        "# Expenses\n\nReceipts for train tickets go to the finance team.\n", encoding="utf-8"
    )
    api_port, flower_port = free_port(), free_port()
    places = {"8100": str(api_port), "5555": str(flower_port)}
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    with fresh_database(servers.database_url) as database_url, ExitStack() as running:
        ours = {
            "KNOWLEDGE_DATABASE_URL": database_url,
            "KNOWLEDGE_REDIS_URL": servers.redis_url,
            "KNOWLEDGE_DOCS": str(home / "docs"),
            "KNOWLEDGE_TOKENS": json.dumps([{"value": TOKEN, "id": "test", "permissions": ["knowledge:*"]}]),
            "KNOWLEDGE_FLOWER_BASIC_AUTH": "someone:something",
        }
        elsewhere = {"KNOWLEDGE_PORT": str(api_port), "KNOWLEDGE_FLOWER_PORT": str(flower_port)}
        names = ("migrate", "api", "worker", "beat", "flower")
        environments = {name: container_environment(services[name], ours) | elsewhere for name in names}

        def start(name: str) -> subprocess.Popen[bytes]:
            log = running.enter_context((home / f"{name}.log").open("wb"))
            return subprocess.Popen(
                [BIN / "knowledge-worker", *services[name]["command"]],
                env=environments[name],
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

        assert start("migrate").wait(READY_S) == 0, (home / "migrate.log").read_text()
        processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in names[1:]:
            processes[name] = start(name)
            running.callback(end, processes[name])
        checks = {name: check_command(services[name]["healthcheck"]["test"], places) for name in processes}
        yield Composition(processes=processes, checks=checks, environments=environments, logs=home, api_port=api_port)


@pytest.mark.parametrize("name", ["api", "worker", "beat", "flower"])
def test_a_service_started_as_written_passes_its_health_check(composition: Composition, name: str) -> None:
    wait_until(lambda: composition.is_healthy(name), composition, name)


def test_the_services_together_index_the_folder_and_answer(composition: Composition) -> None:
    wait_until(lambda: composition.is_healthy("api"), composition, "api")
    wait_until(lambda: composition.api("GET", "/collections/docs")["status"] == "ready", composition, "worker")
    found = composition.api("POST", "/search", {"query": "paid leave for parents", "collections": ["docs"]})
    assert found["matches"][0]["document"] == "parental-leave.md"


def test_every_service_stops_on_sigterm_within_its_grace_period(composition: Composition) -> None:
    for process in composition.processes.values():
        process.terminate()
    codes = {name: process.wait(STOP_S) for name, process in composition.processes.items()}
    assert codes == dict.fromkeys(composition.processes, 0)
    # The control of the health checks: none of them is content with a process that is gone.
    assert not any(composition.is_healthy(name) for name in ("api", "worker", "flower"))


def container_environment(service: dict[str, Any], ours: dict[str, str]) -> dict[str, str]:
    """The image's variables and those that the file names; nothing else of ours reaches a container."""
    named = service["environment"]
    return {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "KNOWLEDGE_HOST": "127.0.0.1",
        "KNOWLEDGE_LOG_FORMAT": "json",
    } | {name: ours[name] for name in named if name in ours}


def check_command(test: list[str], places: dict[str, str]) -> list[str]:
    """A health check with the ports of this run."""
    kind, *words = test
    for port, place in places.items():
        words = [word.replace(f"127.0.0.1:{port}/", f"127.0.0.1:{place}/") for word in words]
    return words if kind == "CMD" else ["/bin/sh", "-c", *words]


@contextmanager
def fresh_database(url: str) -> Generator[str]:
    """A database of its own on that server, so that nothing here meets what other tests made."""
    parts = urlsplit(url)
    name = f"compose_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
    yield parts._replace(path=f"/{name}").geturl()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'drop database "{name}" with (force)')


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(condition: Callable[[], bool], composition: Composition, name: str) -> None:
    deadline = time.monotonic() + READY_S
    while not condition():
        log = (composition.logs / f"{name}.log").read_text(errors="replace")[-4000:]
        assert composition.processes[name].poll() is None, f"{name} ended:\n{log}"
        assert time.monotonic() < deadline, f"{name} is not ready:\n{log}"
        time.sleep(0.2)
