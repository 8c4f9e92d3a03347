"""Running the git command: no prompts, no foreign configuration, no credentials in what it says."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import IO

from knowledge_worker.errors import ConfigurationError, SourceError
from knowledge_worker.ports import SourceContext
from knowledge_worker.sources.git_remote import PROTOCOLS, Remote
from knowledge_worker.sources.messages import one_line

OLDEST_GIT = (2, 32)
"""Older ones cannot be told through the environment to leave the user's configuration alone."""
POLL_S = 0.1

_KEPT_VARIABLES = {"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"}
# No prompts; a connection that died is noticed within a minute.
_SSH = "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15 -oServerAliveCountMax=4"
_CONFIGURATION = {
    "core.hooksPath": os.devnull,
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    # git tidies its copy up itself, within the fetch; objects a reader may still want live on for a day.
    "gc.autoDetach": "false",
    "maintenance.autoDetach": "false",
    "gc.autoPackLimit": "20",
    "gc.pruneExpire": "1.day.ago",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
}


def check_git() -> None:
    """Check that the git command is there and new enough.

    Raises:
        ConfigurationError: it is not.
    """
    oldest = ".".join(map(str, OLDEST_GIT))
    if shutil.which("git") is None:
        raise ConfigurationError(f"git() needs the git command, {oldest} or newer: install git.")
    shown = subprocess.run(["git", "version"], capture_output=True, text=True, check=False, timeout=60).stdout
    version = re.search(r"(\d+)\.(\d+)", shown)
    if version is None or (int(version[1]), int(version[2])) < OLDEST_GIT:
        raise ConfigurationError(f"git() needs the git command in version {oldest} or newer: update git.")


def run_git(
    repository: Path,
    arguments: Sequence[str],
    *,
    remote: Remote,
    context: SourceContext,
    timeout_s: float,
    held: int,
) -> str:
    """Run one command to its end.

    Args:
        repository: the bare repository it works on.
        remote: whose credentials it may use.
        context: asked while it runs whether to stop.
        held: a lock's file descriptor; the command inherits it, so that a command that outlives this process
            still holds the lock.

    Returns:
        What it printed.

    Raises:
        SourceError: it failed or did not end in time; says git's own reason.
        PassCancelledError: the pass was asked to stop.
    """
    process = subprocess.Popen(
        _command(repository, arguments),
        env=_environment(remote),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(held,),
    )
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            try:
                output, errors = process.communicate(timeout=POLL_S)
                break
            except subprocess.TimeoutExpired:
                context.raise_if_cancelled()
                if time.monotonic() > deadline:
                    raise SourceError(f"{remote.written}: git did not answer in {timeout_s:g} s.") from None
    finally:
        if process.poll() is None:
            # Its helpers (ssh, remote-https, index-pack) are in its session and must not outlive it.
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        raise SourceError(f"{remote.written}: {_reason(errors.decode(errors='replace'), remote)}")
    return output.decode(errors="replace")


@contextlib.contextmanager
def open_git(
    repository: Path, arguments: Sequence[str], *, remote: Remote
) -> Generator[subprocess.Popen[bytes], None, None]:
    """Run a command that reads the local copy, to talk with while it runs; it ends with the block."""
    with subprocess.Popen(
        _command(repository, arguments),
        env=_environment(remote),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            with contextlib.suppress(BrokenPipeError):
                pipe_of(process.stdin).close()


def pipe_of(pipe: IO[bytes] | None) -> IO[bytes]:
    """A pipe that :func:`open_git` made; Popen's type allows for none."""
    if pipe is None:
        raise SourceError("git runs without its pipes.")
    return pipe


def _command(repository: Path, arguments: Sequence[str]) -> list[str]:
    return ["git", f"--git-dir={repository}", *arguments]


def _environment(remote: Remote) -> dict[str, str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT_VARIABLES
    }
    environment.setdefault("GIT_SSH_COMMAND", _SSH)
    configuration = dict(_CONFIGURATION)
    if remote.full_url is not None:
        # Not on the command line, where every user of the machine can read it.
        configuration[f"url.{remote.full_url}.insteadOf"] = remote.url
    for number, (key, value) in enumerate(configuration.items()):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment | {
        "GIT_CONFIG_COUNT": str(len(configuration)),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "LC_ALL": "C",
    }


def _reason(errors: str, remote: Remote) -> str:
    for secret in remote.secrets:
        errors = errors.replace(secret, "…")
    lines = [line for line in errors.splitlines() if line.strip()]
    chosen = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
    reason = one_line(chosen.partition(": ")[2] if chosen.startswith(("fatal:", "error:")) else chosen)
    return f"git failed: {reason}" if reason else "git failed without a word."
