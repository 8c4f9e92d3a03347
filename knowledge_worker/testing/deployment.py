"""A whole deployment of real processes, for tests and benchmarks: started, killed, stopped and continued by hand."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

TOKEN: Final = "deployment-under-test-token"  # noqa: S105 - of a deployment that lives as long as a test
"""May do everything."""
READY_S: Final = 60.0


class Deployment:
    """``knowledge-worker`` processes over servers that are running already.

    Args:
        folder: their working directory; each process logs into ``folder/logs``.
        environment: settings of every process, without the two addresses.
    """

    def __init__(
        self, folder: Path, *, database_url: str, redis_url: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.port = _free_port()
        self.environment = {
            "KNOWLEDGE_DATABASE_URL": database_url,
            "KNOWLEDGE_REDIS_URL": redis_url,
            "KNOWLEDGE_TOKENS": f'[{{"value": "{TOKEN}", "id": "test", "permissions": ["*"]}}]',
            "KNOWLEDGE_PORT": str(self.port),
            "KNOWLEDGE_LOG_FORMAT": "json",
            **(environment or {}),
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where the API of :meth:`start_api` answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def alive(self) -> list[subprocess.Popen[bytes]]:
        """The processes that run now."""
        return [process for process in self.processes if process.poll() is None]

    def start(self, *command: str, **settings: str) -> subprocess.Popen[bytes]:
        """Start ``knowledge-worker <command>`` and return at once."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
        with (self.logs / f"{len(self.processes):03}-{command[0]}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "knowledge_worker.cli", *command],
                env={**inherited, **self.environment, **settings},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def run(self, *command: str, **settings: str) -> None:
        """Run a command to its end.

        Raises:
            RuntimeError: it did not end with 0; holds the end of the logs.
        """
        if self.start(*command, **settings).wait(READY_S) != 0:
            raise RuntimeError(self.tail())

    def start_api(self, **settings: str) -> subprocess.Popen[bytes]:
        """Start the API and wait until it listens."""
        process = self.start("api", **settings)
        self.until(lambda: _listens(self.port), what="the API listens", process=process)
        return process

    def until(
        self,
        met: Callable[[], object],
        *,
        what: str,
        seconds: float = READY_S,
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        """Wait for something.

        Raises:
            RuntimeError: it did not come, or ``process`` ended; holds the end of the logs.
        """
        end = time.monotonic() + seconds
        while not met():
            if time.monotonic() > end or (process is not None and process.poll() is not None):
                raise RuntimeError(f"{what}: did not happen\n{self.tail()}")
            time.sleep(0.05)

    def tail(self) -> str:
        """The end of every log."""
        logs = sorted(self.logs.iterdir())
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs)

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.alive:
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self.processes:
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
