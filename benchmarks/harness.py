"""What the benchmarks share: a database of their own, a provider that costs nothing, and a table with bars."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import psycopg
import structlog
from sqlalchemy import make_url

from knowledge_worker import Knowledge, KnowledgeCollection
from knowledge_worker.config import Settings
from knowledge_worker.embedded.servers import start_servers
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.ports import Embeddings, Purpose
from knowledge_worker.queue.inline import InlineQueue


@contextlib.contextmanager
def database(server: str | None = None) -> Iterator[str]:
    """The address of an empty database that is dropped afterwards.

    On ``server``, else on that of KNOWLEDGE_DATABASE_URL (whose user may create databases; its own data is not
    touched), else on an embedded one.
    """
    with contextlib.ExitStack() as stack:
        server = server or os.environ.get("KNOWLEDGE_DATABASE_URL")
        if server is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kw-bench-"))
            servers = start_servers(Path(folder) / "data")
            stack.callback(servers.stop)
            server = servers.database_url
            assert server is not None
        name = f"kw_bench_{uuid4().hex[:12]}"
        _administer(server, f"create database {name}")
        stack.callback(_drop, server, name)
        yield make_url(server).set(database=name).render_as_string(hide_password=False)


def described_machine(url: str) -> str:
    """The machine in general words."""
    with psycopg.connect(url) as connection:
        version = connection.execute(
            "select current_setting('server_version'), "
            "(select default_version from pg_available_extensions where name = 'vector')"
        ).fetchone()
    assert version is not None
    return (
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Python {platform.python_version()}, "
        f"PostgreSQL {version[0]}, pgvector {version[1]}"
    )


class HelperThreads(InlineQueue):
    """A queue whose helpers run in threads of this process, as in a worker of so many threads."""

    def __init__(self, threads: int) -> None:
        super().__init__()
        self._executor = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._running: list[Future[str]] = []
        self._threads = threads
        self.knowledge: Knowledge | None = None

    def nudge_embed(self, collection: str, *, helpers: int) -> bool:
        """Start as many as there are threads for."""
        assert self.knowledge is not None
        self._running = [one for one in self._running if not one.done()]
        for _ in range(min(helpers, self._threads - 1 - len(self._running))):
            assert self._executor is not None
            self._running.append(self._executor.submit(self.knowledge.run_embed, collection))
        return True

    def finish(self) -> None:
        """Wait for the helpers.

        Raises:
            Exception: what one of them raised.
        """
        for one in self._running:
            one.result()
        if self._executor is not None:
            self._executor.shutdown()


class InstantModel:
    """An :class:`~knowledge_worker.ports.EmbeddingModel` that answers at once: random unit vectors made beforehand.

    Attributes:
        calls: how often it was asked.
        texts: how many texts it was asked for.
    """

    max_inputs = 2048

    def __init__(self, dimensions: int) -> None:
        vectors = np.random.default_rng(7).normal(size=(8192, dimensions)).astype(np.float32)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self.dimensions = dimensions
        self.id = f"benchmark/instant-{dimensions}"
        self.calls = 0
        self.texts = 0
        self._mutex = threading.Lock()

    def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout_ms: int) -> Embeddings:  # noqa: ARG002
        with self._mutex:
            first = self.texts % (len(self.vectors) - self.max_inputs)
            self.calls += 1
            self.texts += len(texts)
        return Embeddings(vectors=self.vectors[first : first + len(texts)], tokens=0, calls=1)


def knowledge_of(
    url: str,
    *collections: KnowledgeCollection,
    settings: Mapping[str, Any] | None = None,
    queue: InlineQueue | None = None,
) -> Knowledge:
    """One worker in this process that starts no other process and needs no Redis."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    return Knowledge(
        collections,
        settings=Settings(database_url=url, **(settings or {})),
        locks=MemoryLocks(),
        queue=queue or InlineQueue(),
    )


def run_pass(knowledge: Knowledge, name: str) -> None:
    """Ask for a pass and run it here.

    Raises:
        RuntimeError: it did not succeed.
    """
    knowledge.sync(name)
    outcome = knowledge.run_pass(name)
    if outcome != "ok":
        raise RuntimeError(f"the pass of {name} ended with: {outcome}")


@dataclass
class Report:
    """Lines of a small table, and whether every bar was reached."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)
    missed: int = 0

    def add(self, what: str, value: str, *, bar: str = "", ok: bool = True) -> None:
        """Add a line; ``bar`` says what is asked for, ``ok`` whether that is so."""
        self.lines.append((what, value, f"{bar}: {'ok' if ok else 'MISSED'}" if bar else ""))
        self.missed += not ok

    def show(self) -> None:
        """Print the lines."""
        width = max(len(line[0]) for line in self.lines)
        values = max(len(line[1]) for line in self.lines)
        for what, value, bar in self.lines:
            print(f"{what:<{width}}  {value:<{values}}  {bar}".rstrip())

    def status(self, *, check: bool) -> int:
        """What the process ends with: 1 when a bar was missed and that was to be checked."""
        return 1 if check and self.missed else 0


def _administer(server: str, statement: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[arg-type]


def _drop(server: str, name: str) -> None:
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectInUse):  # autovacuum is at it
        _administer(server, f"drop database if exists {name} with (force)")
