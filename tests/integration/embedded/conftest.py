from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knowledge_worker.embedded.directory import DataDirectory

HOLDER = """
import sys
from pathlib import Path
from knowledge_worker.log import configure_logging
from knowledge_worker.embedded.servers import start_servers
from knowledge_worker.errors import KnowledgeError
configure_logging()
try:
    servers = start_servers(Path(sys.argv[1]))
except KnowledgeError as error:
    sys.exit(f"{type(error).__name__}: {error}")
print(servers.database_url, servers.redis_url, flush=True)
try:
    sys.stdin.read()
finally:
    servers.stop()
"""


class Holder:
    """A process that runs the embedded servers until its standard input is closed."""

    def __init__(self, data_dir: Path, python: tuple[str, ...] = (sys.executable,)) -> None:
        self.process = subprocess.Popen(
            [*python, "-c", HOLDER, str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def urls(self) -> tuple[str, str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.error())
        database_url, redis_url = line.split()
        return database_url, redis_url

    def error(self) -> str:
        """What it said as it failed."""
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode == 1
        return said.strip()

    def stop(self) -> None:
        if self.process.returncode is None:
            self.process.communicate(timeout=60)
            assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=60)


@pytest.fixture
def hold() -> Iterator[Callable[..., Holder]]:
    holders: list[Holder] = []

    def start(data_dir: Path, python: tuple[str, ...] = (sys.executable,)) -> Holder:
        holders.append(Holder(data_dir, python))
        return holders[-1]

    yield start
    for holder in holders:
        holder.stop()


@pytest.fixture(scope="session")
def prepared() -> Iterator[Path]:
    """A data directory that has been used before; initdb takes seconds on a busy machine."""
    folder = Path(tempfile.mkdtemp())
    holder = Holder(folder / "data")
    holder.urls()
    holder.stop()
    yield folder / "data"
    shutil.rmtree(folder)


@pytest.fixture
def empty_dir() -> Iterator[Path]:
    """A data directory yet to be made, below a folder that only this user may enter, as home directories are."""
    folder = Path(tempfile.mkdtemp())
    yield folder / "data"
    for _ in range(100):
        shutil.rmtree(folder, ignore_errors=True)  # a killed server may be about to remove files of its own
        if not folder.exists():
            break
        time.sleep(0.05)


@pytest.fixture
def data_dir(empty_dir: Path, prepared: Path) -> Path:
    """A copy of the prepared one."""
    shutil.copytree(prepared, empty_dir)
    return empty_dir


@pytest.fixture
def server_processes() -> Callable[[Path], list[str]]:
    """Command lines of all processes that belong to the servers of a data directory."""

    def list_them(data_dir: Path) -> list[str]:
        mark = DataDirectory(data_dir.resolve(), -1).mark
        found: list[str] = []
        for process in Path("/proc").iterdir():
            try:
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if mark in command:
                found.append(command)
        return found

    return list_them


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait until something holds; the limit is only there so that a failing test ends."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.02)

    return wait
