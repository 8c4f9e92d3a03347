"""Child processes that end when we do, and how they are stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Protocol

LAUNCHER = Path(__file__).with_name("launch.py")


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the operating system."""

    uid: int
    gid: int


class Server(Protocol):
    """A server process that the supervisor keeps alive."""

    @property
    def name(self) -> str:
        """A word for people and file names."""
        ...

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        ...

    def start(self) -> None:
        """Start it, on the former address when it ran before, and wait until it answers.

        Raises:
            KnowledgeError: it cannot be started; one line says why.
        """
        ...

    def stop(self) -> None:
        """Shut it down cleanly and wait; harmless when it does not run."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes],
    death_signal: signal.Signals = signal.SIGKILL,
    account: Account | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own that gets ``death_signal`` when this process ends, however it ends.

    Its standard error goes where its standard output goes.

    Args:
        argv: the program and its arguments.
        env: its whole environment.
        cwd: its working directory.
        stdin: as :class:`subprocess.Popen` takes it.
        stdout: the same.
        death_signal: what the kernel sends.
        account: the user to run it as; only root can ask for one.
    """
    # The kernel's own mechanism fires when the *thread* that forked ends, so it serves the main thread only.
    kernel = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
    lifeline = -1 if kernel else _lifeline()
    uid, gid = (account.uid, account.gid) if account else (-1, -1)
    words = [str(number) for number in (os.getpid(), int(death_signal), lifeline, uid, gid)]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(LAUNCHER), *words, *argv],
        env=dict(env),
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=() if kernel else (lifeline,),
    )


@cache
def _lifeline() -> int:
    """The reading end of a pipe whose writing end only this process holds, for as long as it lives."""
    reading, _ = os.pipe()
    return reading


def stop(process: subprocess.Popen[bytes], steps: Iterable[tuple[signal.Signals, float]]) -> None:
    """Send each signal and wait its seconds, until the process is gone; at last kill its whole group."""
    for number, seconds in steps:
        if process.poll() is not None:
            break
        process.send_signal(number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    kill_group(process)
    process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the process and of its own children, which share its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS answers the latter for a group of zombies
        pass


def server_environment() -> dict[str, str]:
    """For the database servers: nothing of ours (PGPORT and its kin would change what they do)."""
    return {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}


def find_marked(program: str, mark: str) -> list[int]:
    """Process ids of running ``program``s whose command line holds ``mark``."""
    found: list[int] = []
    for pid, command in _commands():
        first = command.split(" ", 1)[0].rstrip(":")
        if first.rsplit("/", 1)[-1] == program and mark in command:
            found.append(pid)
    return found


def _commands() -> Iterable[tuple[int, str]]:
    """Process id and command line of every process that we may see."""
    if sys.platform == "linux":
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    raw = (folder / "cmdline").read_bytes()
                except OSError:
                    continue  # it ended meanwhile
                yield int(folder.name), raw.replace(b"\0", b" ").decode(errors="replace")
    else:
        listing = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=False)
        for line in listing.stdout.splitlines():
            pid, _, command = line.strip().partition(" ")
            yield int(pid), command.lstrip()


def end_leftovers(program: str, mark: str, number: signal.Signals, *, patience_s: float = 6.0) -> int:
    """End what a killed earlier run left; the caller holds the lock, so nobody else can be using it.

    Returns:
        How many processes there were.
    """
    first = left = find_marked(program, mark)
    deadline = time.monotonic() + patience_s
    send = number
    while left:
        for pid in left:
            try:
                os.kill(pid, send)
            except ProcessLookupError:
                continue
            except PermissionError:
                return len(first)  # another user's: the start will say so
        time.sleep(0.05)
        left = find_marked(program, mark)
        if time.monotonic() > deadline:
            send = signal.SIGKILL
        if time.monotonic() > deadline + patience_s:
            break
    return len(first)
