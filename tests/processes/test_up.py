"""``up`` and ``services`` as a person runs them: real commands, real servers, an empty directory."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from knowledge_worker.embedded.directory import running_servers

pytestmark = pytest.mark.processes

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}


class Command:
    """A running ``knowledge-worker`` and what it has said so far."""

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "knowledge_worker.cli", *arguments],
            cwd=folder,
            env={**ENVIRONMENT, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said: list[str] = []

    def wait_for(self, pattern: str) -> re.Match[str]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if found := re.search(pattern, self.said[-1]):
                return found
        raise AssertionError("\n".join(self.said))

    def descendants(self) -> list[int]:
        """Process ids of everything that it started, by session: each child leads one of its own."""
        children: list[int] = []
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and self.process.pid == _parent(int(process.name)):
                    children.append(int(process.name))
            except OSError:
                continue
        return children

    def end(self) -> int:
        said, _ = self.process.communicate(timeout=120)
        self.said += said.splitlines()
        return self.process.returncode

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.end()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.05)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def start(*arguments: str, **variables: str) -> Command:
        started.append(Command(tmp_path, *arguments, **variables))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.stop()
        each.process.communicate()


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "lease.md").write_text("# Leases\n\nA lease says who works on a collection now.\n")
    (folder / "fence.md").write_text("# Fences\n\nA fence keeps a stale worker from writing.\n")
    return folder


def ask(url: str, token: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
    answer = connection.getresponse()
    try:
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_up_indexes_answers_survives_a_kill_and_stops_cleanly(
    command: Callable[..., Command], notes: Path, tmp_path: Path
) -> None:
    # Given an empty directory, everything starts and the folder is indexed.
    arguments = ("up", "--docs", str(notes), "--port", "0", "--flower-port", "0")
    first = command(*arguments)
    url = first.wait_for(r"^API: +(http://127\.0\.0\.1:\d+)$")[1]
    token = first.wait_for(r"^Token: +(\S+)$")[1]
    first.wait_for(r"^Flower: +http://127\.0\.0\.1:\d+$")
    first.wait_for(r"^notes: 2 documents, 2 passages in \d+\.\d s$")
    first.wait_for(r'^Ask: +knowledge-worker search "')
    status, answer = ask(url, token, "/knowledge/search", {"query": "what keeps a stale worker from writing?"})
    assert status == 200
    assert answer["matches"][0]["document"] == "fence.md"
    assert ask(url, "not-the-token-that-was-made", "/knowledge/collections")[0] == 401
    running = running_servers(tmp_path / ".knowledge")
    assert running is not None
    assert running.api_url == url

    # A command from another terminal works on the same deployment, and needs nothing set either.
    assert command("collections", "create", "minutes").end() == 0
    noted = command("collections", "--json")
    assert noted.end() == 0
    assert json.loads("".join(noted.said))["data"][0]["model"] == "local/wordllama"

    # A second one is refused in one line, and harms nothing.
    second = command(*arguments)
    assert second.end() == 2
    assert second.said == [
        f"Error: The data directory {tmp_path}/.knowledge is in use by process {first.process.pid}. "
        "Stop that one, or choose another with --data-dir."
    ]
    assert ask(url, token, "/readyz")[0] == 200

    # Killed outright, it leaves no process; the next start finds everything, the token too.
    pids = first.descendants()
    assert len(pids) == 6  # postgres, valkey, api, worker, beat, flower
    first.process.kill()
    wait_until_gone(pids)
    again = command(*arguments)
    assert again.wait_for(r"^Token: +(\S+)$")[1] == token
    again.wait_for(r"^notes: 2 documents, 2 passages ")

    # Asked to stop, it does so with exit code 0 and leaves no process either.
    pids = again.descendants()
    assert again.stop() == 0
    assert not any(is_alive(pid) for pid in pids)
    assert not [line for line in again.said if "Traceback" in line]


def test_services_print_their_addresses_and_stop_cleanly(command: Callable[..., Command], tmp_path: Path) -> None:
    services = command("services", "--data-dir", "data")
    database_url = services.wait_for(r"^export KNOWLEDGE_DATABASE_URL=(\S+)$")[1]
    redis_url = services.wait_for(r"^export KNOWLEDGE_REDIS_URL=(\S+)$")[1]

    with psycopg.connect(database_url) as connection, redis.Redis.from_url(redis_url) as client:
        assert connection.execute("SELECT extname FROM pg_extension WHERE extname = 'vector'").fetchone()
        assert client.ping()

    pids = services.descendants()
    assert len(pids) == 2
    assert services.stop() == 0
    assert not any(is_alive(pid) for pid in pids)
    assert not any("password" in line for line in services.said)


def refusal(command: Callable[..., Command], *arguments: str, **variables: str) -> tuple[int, list[str]]:
    refused = command(*arguments, **variables)
    return refused.end(), refused.said


def test_a_port_in_use_is_said_before_anything_starts(command: Callable[..., Command], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        code, said = refusal(command, "up", "--port", str(port))

    assert code == 2
    assert len(said) == 1
    assert f"Port {port} on 127.0.0.1 is in use" in said[0]
    assert f"({os.getpid()})" in said[0]
    assert not (tmp_path / ".knowledge" / "postgres").exists()


def test_one_port_for_two_is_refused(command: Callable[..., Command]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])

    code, said = refusal(command, "up", "--port", port, "--flower-port", port)

    assert code == 2
    assert f"Port {port} on 127.0.0.1 is in use" in said[0]


def test_a_folder_that_does_not_exist_is_named(command: Callable[..., Command], tmp_path: Path) -> None:
    code, said = refusal(command, "up", "--docs", "missing", "--port", "0", "--flower-port", "0")

    assert code == 2
    assert len(said) == 1
    assert "missing" in said[0]
    assert not (tmp_path / ".knowledge" / "postgres").exists()


def test_declarations_that_cannot_work_are_said_line_by_line(command: Callable[..., Command], tmp_path: Path) -> None:
    (tmp_path / "declared.py").write_text("knowledge = 'not one'\n")

    code, said = refusal(command, "up", "--app", "declared:knowledge", "--port", "0", "--flower-port", "0")

    assert code == 1
    assert len(said) == 1
    assert "declared:knowledge" in said[0]


def test_a_database_that_does_not_answer_is_named(command: Callable[..., Command]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"postgresql://nobody:very-secret@127.0.0.1:{free.getsockname()[1]}/none"

    code, said = refusal(command, "up", "--port", "0", "--no-flower", KNOWLEDGE_DATABASE_URL=url)

    assert code != 0
    assert said[-1].startswith("Error: ")
    assert not [line for line in said if "very-secret" in line or "Traceback" in line]


def test_a_directory_that_cannot_be_used_is_named(command: Callable[..., Command], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    code, said = refusal(command, "services", "--data-dir", "file")

    assert (code, len(said)) == (2, 1)
    assert "there is a file in its place" in said[0]
