"""A supervisor in a process of its own, with real children: what is kept alive, and what is left when it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

Eventually = Callable[[Callable[[], bool]], None]

SUPERVISE = """
import json, sys
from pathlib import Path
from knowledge_worker.embedded import supervisor as module
from knowledge_worker.embedded.servers import start_servers
from knowledge_worker.log import configure_logging

configure_logging()
module.RESTART_FIRST_S = 0.05
plan = json.loads(sys.argv[1])
logs = Path(plan["folder"]) / "logs"
logs.mkdir(exist_ok=True)
with module.Supervisor(logs=logs, write=lambda name, line: print(f"{name}: {line}", flush=True)) as supervisor:
    for child in plan["children"]:
        supervisor.begin(module.Child(env={}, **child))
    if plan["servers"]:
        servers = start_servers(Path(plan["folder"]) / "data")
        supervisor.watch(servers.parts)
        print(": urls", servers.database_url, servers.redis_url, flush=True)
    code = supervisor.run()
sys.exit(code)
"""
OBEDIENT = """
import signal, sys, time
def stop(*_):
    print("stopped"); sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("pid", __import__("os").getpid())
while True: time.sleep(0.05)
"""
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
own = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
print("pid", os.getpid()); print("pid", own.pid)
time.sleep(600)
"""
LEAVES_ONE_BEHIND = """
import os, subprocess, sys, time
own = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
os.write(1, f"pid {own.pid}\\nno end".encode())
time.sleep(600)
"""


class Supervised:
    """A running supervisor and what it has said so far."""

    def __init__(self, folder: Path, children: list[dict[str, Any]], *, servers: bool) -> None:
        self.folder = folder
        plan = {"folder": str(folder), "children": children, "servers": servers}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISE, json.dumps(plan)], stdout=subprocess.PIPE, text=True
        )
        self.said: list[str] = []
        self.unread: list[str] = []

    def wait_for(self, start: str) -> str:
        """The rest of the next line that starts so; several children speak in any order."""
        assert self.process.stdout is not None
        while True:
            for line in self.unread:
                if line.startswith(start):
                    self.unread.remove(line)
                    return line.removeprefix(start).strip()
            line = self.process.stdout.readline().rstrip("\n")
            assert line, self.said
            self.said.append(line)
            self.unread.append(line)

    def pid_of(self, name: str) -> int:
        return int(self.wait_for(f"{name}: pid"))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait for its end; its exit code."""
        said, _ = self.process.communicate(timeout=60)
        self.said += said.splitlines()
        return self.process.returncode


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    started: list[Supervised] = []

    def start(*children: dict[str, Any], folder: Path = tmp_path, servers: bool = False) -> Supervised:
        started.append(Supervised(folder, list(children), servers=servers))
        return started[-1]

    yield start
    for supervised in started:
        if supervised.process.poll() is None:
            supervised.process.kill()
        supervised.process.communicate()


def child(name: str, code: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "argv": [sys.executable, "-S", "-c", code], **more}


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return state not in "ZX"


def test_output_is_passed_on_by_name_and_kept(supervise: Callable[..., Supervised], tmp_path: Path) -> None:
    # One write: when the second line was seen, the unfinished one has been written too.
    code = "import os, time; os.write(1, 'one\\nzwei ä\\nno end'.encode()); time.sleep(600)"
    supervised = supervise(child("talker", code))
    supervised.wait_for("talker: zwei ä")

    supervised.signal(signal.SIGTERM)

    assert supervised.end() == 0
    assert supervised.said == ["talker: one", "talker: zwei ä", ": stopping; once more to kill", "talker: no end"]
    assert (tmp_path / "logs" / "talker.log").read_text() == "one\nzwei ä\nno end\n"


def test_an_unfinished_line_is_kept_when_something_else_holds_the_output_open(
    supervise: Callable[..., Supervised], tmp_path: Path
) -> None:
    supervised = supervise(child("talker", LEAVES_ONE_BEHIND))
    left_behind = supervised.pid_of("talker")
    try:
        supervised.signal(signal.SIGTERM)
        assert supervised.end() == 0
        assert is_alive(left_behind)
    finally:
        os.kill(left_behind, signal.SIGKILL)

    assert "talker: no end" in supervised.said
    assert (tmp_path / "logs" / "talker.log").read_text().endswith("\nno end\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything_in_order(supervise: Callable[..., Supervised], number: signal.Signals) -> None:
    supervised = supervise(child("worker", OBEDIENT, stop_order=1), child("api", OBEDIENT))
    pids = [supervised.pid_of("worker"), supervised.pid_of("api")]

    supervised.signal(number)

    assert supervised.end() == 0
    assert [line for line in supervised.said if line.endswith(": stopped")] == ["api: stopped", "worker: stopped"]
    assert not any(is_alive(pid) for pid in pids)


def test_a_child_that_ignores_the_request_is_killed_with_its_own_children(
    supervise: Callable[..., Supervised], eventually: Eventually
) -> None:
    supervised = supervise(child("api", STUBBORN, grace_s=0.3))
    pids = [supervised.pid_of("api"), supervised.pid_of("api")]

    supervised.signal(signal.SIGTERM)

    assert supervised.end() == 0
    eventually(lambda: not any(is_alive(pid) for pid in pids))


def test_a_second_signal_kills_at_once(supervise: Callable[..., Supervised], eventually: Eventually) -> None:
    supervised = supervise(child("worker", STUBBORN, grace_s=600))
    pids = [supervised.pid_of("worker"), supervised.pid_of("worker")]
    supervised.signal(signal.SIGINT)
    supervised.wait_for(": stopping")
    assert is_alive(pids[0])

    supervised.signal(signal.SIGINT)

    assert supervised.end() == 1
    eventually(lambda: not any(is_alive(pid) for pid in pids))


def test_killing_the_supervisor_leaves_no_child(supervise: Callable[..., Supervised], eventually: Eventually) -> None:
    supervised = supervise(child("api", OBEDIENT), child("worker", STUBBORN))
    pids = [supervised.pid_of("api"), supervised.pid_of("worker")]

    supervised.signal(signal.SIGKILL)

    eventually(lambda: not any(is_alive(pid) for pid in pids))


def test_a_child_that_dies_comes_back(supervise: Callable[..., Supervised]) -> None:
    supervised = supervise(child("api", OBEDIENT), child("worker", OBEDIENT))
    api, worker = supervised.pid_of("api"), supervised.pid_of("worker")

    os.kill(worker, signal.SIGKILL)

    assert supervised.wait_for(": worker was ended by SIGKILL").endswith("It is started again in 0.05 s.")
    again = supervised.pid_of("worker")
    assert again != worker
    assert is_alive(again)
    assert is_alive(api)
    assert not Path(f"/proc/{worker}").exists()  # not even as a zombie


def test_a_child_that_keeps_dying_ends_everything(supervise: Callable[..., Supervised], tmp_path: Path) -> None:
    supervised = supervise(child("api", OBEDIENT), child("worker", "raise SystemExit(7)"))
    api = supervised.pid_of("api")

    assert supervised.end() == 1

    log = tmp_path / "logs" / "worker.log"
    assert f": worker ended 5 times within a minute, giving up: it exited with code 7; see {log}." in supervised.said
    waits = [line.split()[-2] for line in supervised.said if "started again" in line]
    assert waits == ["0.05", "0.1", "0.2", "0.4"]
    assert not is_alive(api)


def test_a_configuration_error_is_not_tried_again(supervise: Callable[..., Supervised], tmp_path: Path) -> None:
    supervised = supervise(child("worker", "print('Error: no key'); raise SystemExit(2)"))

    assert supervised.end() == 2

    log = tmp_path / "logs" / "worker.log"
    assert supervised.said == [
        "worker: Error: no key",
        f": worker cannot run as it is configured; it says why in {log}.",
    ]


def test_a_program_that_does_not_exist_is_named(supervise: Callable[..., Supervised]) -> None:
    supervised = supervise({"name": "worker", "argv": ["/no/such/program"]})

    assert supervised.end() == 1

    assert "worker: /no/such/program: No such file or directory" in supervised.said


def test_a_line_without_an_end_does_not_fill_the_memory(supervise: Callable[..., Supervised]) -> None:
    supervised = supervise(
        child("talker", "print('x' * 1_000_000, flush=True); print('done'); import time; time.sleep(9)")
    )

    supervised.wait_for("talker: done")

    assert max(len(line) for line in supervised.said) < 200_000
    assert sum(line.count("x") for line in supervised.said) == 1_000_000


def test_servers_that_die_come_back_at_the_same_address(
    supervise: Callable[..., Supervised], data_dir: Path, eventually: Eventually
) -> None:
    supervised = supervise(folder=data_dir.parent, servers=True)
    database_url, redis_url = supervised.wait_for(": urls").split()
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE note AS SELECT 1 AS id")

    with redis.Redis.from_url(redis_url) as client:
        os.kill(client.info("server")["process_id"], signal.SIGKILL)
    supervised.wait_for(": valkey was ended by SIGKILL")
    os.kill(int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    supervised.wait_for(": postgres was ended by SIGKILL")

    def both_answer() -> bool:
        try:
            with psycopg.connect(database_url) as connection, redis.Redis.from_url(redis_url) as client:
                return connection.execute("SELECT id FROM note").fetchone() == (1,) and bool(client.ping())
        except (psycopg.OperationalError, redis.ConnectionError):
            return False

    eventually(both_answer)
    supervised.signal(signal.SIGTERM)
    assert supervised.end() == 0
