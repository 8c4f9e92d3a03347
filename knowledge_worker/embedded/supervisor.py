"""Keeps a group of processes alive, passes their output on, and takes all of it down in order.

The rules that make it clean: every child has a session of its own, so the terminal's Ctrl-C reaches only us; every
child is killed by the kernel when we die; one thread starts, watches and stops (see :mod:`.process`).
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self

from knowledge_worker.embedded.logfile import LogFile
from knowledge_worker.embedded.process import Server, kill_group, spawn
from knowledge_worker.errors import KnowledgeError

DEATHS: Final = 5
DEATHS_WITHIN_S: Final = 60.0
"""A child that died so often in so short a time will not recover by itself."""
RESTART_FIRST_S: Final = 1.0
CONFIGURATION_ERROR: Final = 2
"""The exit code of our commands for what trying again cannot help."""
LINE_MAX_BYTES: Final = 65_536
TURN_S: Final = 0.5
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Write = Callable[[str, str], None]
"""Shows one line: the child's name (empty for our own words) and the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A process to keep alive.

    Attributes:
        name: a word for people and file names; unique.
        argv: the program and its arguments.
        env: its whole environment.
        stop_order: the lowest number is stopped first; equal ones together.
        grace_s: how long it may take from SIGTERM to its end.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    stop_order: int = 0
    grace_s: float = 5.0


class _Deaths:
    """When to start again something that died, and when to give up."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=DEATHS)
        self.due: float | None = None

    def add(self) -> float | None:
        """Count one; the seconds until the next start, or None to give up."""
        now = time.monotonic()
        self._times.append(now)
        recent = sum(1 for moment in self._times if now - moment < DEATHS_WITHIN_S)
        if recent >= DEATHS:
            return None
        wait_s = RESTART_FIRST_S * 2 ** (recent - 1)
        self.due = now + wait_s
        return wait_s

    def is_due(self) -> bool:
        return self.due is not None and time.monotonic() >= self.due


class Running:
    """A child's process and what is read from it; an opaque handle for callers."""

    def __init__(self, child: Child, log: LogFile) -> None:
        self.child = child
        self.log = log
        self.deaths = _Deaths()
        self.process: subprocess.Popen[bytes] | None = None
        self.kill_at: float | None = None
        self.partial = b""
        self.once = False
        self.said: list[str] = []

    @property
    def exit_code(self) -> int:
        """Of the process that ended; waits for it."""
        return self.process.wait() if self.process else 0

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Runs children and watches servers; use it in a ``with`` block, in the main thread.

    Inside the block the first SIGINT, SIGTERM or SIGHUP asks for an orderly stop and the second one kills everything.
    """

    def __init__(self, *, logs: Path, write: Write, on_kill: Callable[[], None] | None = None) -> None:
        """Prepare; nothing runs yet.

        Args:
            logs: the folder for ``<name>.log``.
            write: shows one line of output.
            on_kill: called when a second signal ends this process, to put the terminal right.
        """
        self._logs = logs
        self._write = write
        self._on_kill = on_kill
        self._servers: dict[Server, _Deaths] = {}
        self._running: list[Running] = []
        self._selector = selectors.DefaultSelector()
        self._former: dict[signal.Signals, object] = {}
        self._woken, self._waker = os.pipe()
        self._stopping = False
        self.signals = 0

    def __enter__(self) -> Self:
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._former_waker = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self._former = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        self._former[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _on_child_ended)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            signal.set_wakeup_fd(self._former_waker)
            for number, handler in self._former.items():
                signal.signal(number, handler)  # pyright: ignore[reportArgumentType]
            self._selector.close()
            os.close(self._woken)
            os.close(self._waker)

    @property
    def stop_requested(self) -> bool:
        """Whether someone asked us to stop."""
        return self.signals > 0

    def watch(self, servers: Sequence[Server]) -> None:
        """Keep running servers alive too; they are stopped after all children, in this order."""
        self._servers.update((server, _Deaths()) for server in servers)

    def begin(self, child: Child) -> None:
        """Start a child and keep it alive from now on."""
        running = Running(child, LogFile(self._logs / f"{child.name}.log"))
        self._running.append(running)
        self._spawn(running)

    def begin_once(self, child: Child) -> Running:
        """Start a child that will end by itself; :meth:`finish_once` waits for it."""
        running = Running(child, LogFile(self._logs / f"{child.name}.log"))
        running.once = True
        self._running.append(running)
        self._spawn(running)
        return running

    def finish_once(self, running: Running) -> tuple[int, list[str]]:
        """Wait for a child of :meth:`begin_once`; a request to stop ends it early.

        Returns:
            Its exit code and what it said, line by line.
        """
        while running.alive and not self.stop_requested:
            self._turn(TURN_S)
        if running.alive:
            self._end([running])
        self._finish(running)
        self._running.remove(running)
        return running.exit_code, running.said

    def run(self) -> int:
        """Keep everything alive; an exit code.

        Returns:
            0 when a signal asked us to stop; 1 when something cannot be kept alive, 2 when its configuration is why.
        """
        while not self.stop_requested:
            self._turn(TURN_S)
            hopeless = self._revive()
            if hopeless:
                code, reason = hopeless
                self._write("", reason)
                return code
        return 0

    def stop(self) -> None:
        """Stop everything in order and wait; a process that takes too long is killed."""
        if self.stop_requested and not self._stopping:
            self._write("", "stopping; once more to kill")
        self._stopping = True
        self._running.sort(key=lambda running: running.child.stop_order)
        for _, group in groupby(self._running, key=lambda running: running.child.stop_order):
            self._end(list(group))
        for server in self._servers:
            server.stop()
        self._running.clear()
        self._servers.clear()

    def _spawn(self, running: Running) -> subprocess.Popen[bytes]:
        child = running.child
        process = spawn(child.argv, env={**child.env, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, running)
        running.process = process
        running.deaths.due = None
        return process

    def _end(self, group: Sequence[Running]) -> None:
        """Send SIGTERM to each main process alone, then wait, passing on what they say."""
        now = time.monotonic()
        for running in group:
            running.kill_at = now + running.child.grace_s
            if running.process and running.alive:
                running.process.send_signal(signal.SIGTERM)
        while alive := [running for running in group if running.alive]:
            for running in alive:
                if running.process and running.kill_at and time.monotonic() > running.kill_at:
                    kill_group(running.process)
            self._turn(0.1)
        for running in group:
            self._finish(running)

    def _turn(self, timeout_s: float) -> None:
        """Wait for output, a signal or an ended child, and pass the output on."""
        for key, _ in self._selector.select(timeout_s):
            if key.data is None:
                self._drain_wakeups()
            else:
                self._read(key.data)

    def _drain_wakeups(self) -> None:
        try:
            while os.read(self._woken, 512):
                pass
        except BlockingIOError:
            pass

    def _read(self, running: Running) -> bool:
        """Pass on what is there; False at the end of the pipe or when nothing is there."""
        assert running.process is not None
        assert running.process.stdout is not None
        try:
            part = os.read(running.process.stdout.fileno(), LINE_MAX_BYTES)
        except BlockingIOError:
            return False
        if not part:
            self._selector.unregister(running.process.stdout)
            running.process.stdout.close()
        *lines, running.partial = (running.partial + part).split(b"\n")
        if running.partial and (not part or len(running.partial) > LINE_MAX_BYTES):
            lines.append(running.partial)
            running.partial = b""
        for line in lines:
            self._pass_on(running, line)
        return bool(part)

    def _pass_on(self, running: Running, line: bytes) -> None:
        running.log.write(line)
        text = line.decode(errors="replace").rstrip("\r")
        if running.once:
            running.said.append(text)
        else:
            self._write(running.child.name, text)

    def _finish(self, running: Running) -> None:
        """Read what a dead process left in its pipe, and end what it left running."""
        if running.process is None:
            return
        kill_group(running.process)
        running.process.wait()
        while running.process.stdout and not running.process.stdout.closed and self._read(running):
            pass
        if running.process.stdout and not running.process.stdout.closed:
            # Something it left running in a session of its own holds the pipe open, so its end never comes.
            self._selector.unregister(running.process.stdout)
            running.process.stdout.close()
        if running.partial:
            self._pass_on(running, running.partial)
            running.partial = b""
        running.log.close()

    def _revive(self) -> tuple[int, str] | None:
        """Start again what died, each after its wait; an exit code and the reason when that is hopeless."""
        for running in self._running:
            if running.alive:
                continue
            if running.deaths.due is None:
                self._finish(running)
                code, log = running.exit_code, self._logs / f"{running.child.name}.log"
                if code == CONFIGURATION_ERROR:
                    return code, f"{running.child.name} cannot run as it is configured; it says why in {log}."
                if hopeless := self._count_death(running.child.name, running.deaths, code):
                    return hopeless
            elif running.deaths.is_due():
                self._spawn(running)
        for server, deaths in self._servers.items():
            code = server.poll()
            if code is None:
                continue
            if deaths.due is None:
                if hopeless := self._count_death(server.name, deaths, code):
                    return hopeless
            elif deaths.is_due():
                deaths.due = None
                try:
                    server.start()
                except KnowledgeError as error:
                    self._write("", error.message)
        return None

    def _count_death(self, name: str, deaths: _Deaths, code: int) -> tuple[int, str] | None:
        how = f"{_how(code)}; see {self._logs / name}.log"
        wait_s = deaths.add()
        if wait_s is None:
            return 1, f"{name} ended {DEATHS} times within a minute, giving up: it {how}."
        self._write("", f"{name} {how}. It is started again in {wait_s:g} s.")
        return None

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        # It may interrupt a line that is being written, so it writes none itself.
        self.signals += 1
        if self.signals == 1:
            return
        for running in self._running:
            if running.process:
                kill_group(running.process)
        for server in self._servers:
            server.kill()
        if self._on_kill:
            self._on_kill()
        os._exit(1)


def _on_child_ended(_number: int, _frame: FrameType | None) -> None:
    """Nothing: that there is a handler makes the signal wake the loop."""


def _how(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
