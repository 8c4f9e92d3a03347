"""Processes forked from one that has imported everything: a worker is there in a moment, not in seconds.

Run as a program this is the process that forks; imported it is how a test asks for that. What a forked process runs is
the same command line that ``knowledge-worker`` runs, with an environment, a directory and a log of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

POLL_S = 0.02


class Forks:
    """Asks the forking process, which lives as long as this."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> Forked:
        """Run ``knowledge-worker <argv>``; ``python <file> …`` runs a file instead, as a program."""
        return Forked(self, self.ask(argv=list(argv), env=dict(env), cwd=str(cwd), log=str(log)))

    def ask(self, **question: Any) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._asking:
            stdin.write(json.dumps(question) + "\n")
            stdin.flush()
            return json.loads(stdout.readline())

    def close(self) -> None:
        """End it and whatever it forked that still lives."""
        self._process.communicate("")


class Forked:
    """One forked process, with what tests use of :class:`subprocess.Popen`."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self._forks = forks
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for the signal that ended it; None while it runs."""
        if self.returncode is None:
            self.returncode = self._forks.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float = 120) -> int:
        """Its exit code, once it has ended."""
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("forked", timeout)
            time.sleep(POLL_S)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        # Not reaped before poll() says so: the number cannot have become another process's.
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _serve(questions: IO[str], answers: IO[str]) -> None:
    children: set[int] = set()
    for line in questions:
        question = json.loads(line)
        if "poll" in question:
            pid, status = os.waitpid(question["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
            if pid:
                children.discard(pid)
        else:
            answer = os.fork()
            if answer == 0:
                _become(**question)
            children.add(answer)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _become(argv: list[str], env: dict[str, str], cwd: str, log: str) -> None:
    code = 70
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number, descriptor in ((0, nothing), (1, output), (2, output)):
            os.dup2(descriptor, number)
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        sys.path[0] = cwd
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stdin = os.fdopen(0, closefd=False)
        if argv[0] == "python":
            import runpy

            sys.argv = argv[1:]
            runpy.run_path(argv[1], run_name="__main__")
            code = 0
        else:
            from knowledge_worker.cli import cli
            from knowledge_worker.cli.running import run

            sys.argv = ["knowledge-worker", *argv]
            code = run(cli, argv)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.path.pop(0)
    sys.path.insert(0, "")
    import gc
    import importlib

    for module in (
        "celery.apps.beat", "celery.apps.worker", "celery.beat", "celery.concurrency.thread", "celery.fixups",
        "celery.worker.consumer", "celery.worker.strategy", "knowledge_worker._bundled", "knowledge_worker.cli.beat",
        "knowledge_worker.cli.check", "knowledge_worker.cli.migrate", "knowledge_worker.cli.passes",
        "knowledge_worker.cli.status", "knowledge_worker.cli.worker", "knowledge_worker.embedding.openai",
        "knowledge_worker.loading", "knowledge_worker.worker", "kombu.transport.redis",
        "openai.resources.embeddings", "psycopg_binary", "sqlalchemy.dialects.postgresql.psycopg", "uvicorn",
    ):  # fmt: skip
        importlib.import_module(module)
    gc.freeze()
    _serve(sys.stdin, os.fdopen(os.dup(1), "w"))
