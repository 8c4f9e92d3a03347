"""Real worker and beat processes over one database, one Redis and a scripted provider."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis

from knowledge_worker import Knowledge
from knowledge_worker.config import Settings
from knowledge_worker.domain.collection import Collection
from knowledge_worker.loading import load_knowledge
from knowledge_worker.testing.provider import ScriptedProvider

from .forked import Forked, Forks

APPS = Path(__file__).parent / "apps"
"""Declarations that the processes of a test load; ``folders.py`` unless it asks for others."""

_redis_numbers = itertools.count(1)


class Cluster:
    """Processes of one deployment; what a test changes are its folders, its provider and its processes.

    Attributes:
        knowledge: the same declarations in the test's own process, to ask and to look.
    """

    def __init__(
        self, folder: Path, database_url: str, redis_url: str, provider: ScriptedProvider, forks: Forks
    ) -> None:
        self.folder = folder
        self.database_url = database_url
        self.redis_url = redis_url
        self.provider = provider
        self.collections = ["docs"]
        self.settings: dict[str, str] = {
            "KNOWLEDGE_LEASE_MS": "60000",
            "KNOWLEDGE_CLAIM_MS": "60000",
            "KNOWLEDGE_TICK_MS": "300",
            "KNOWLEDGE_RETRY_MS": "300",
            "KNOWLEDGE_CLAIM_DOCUMENTS": "16",
            "KNOWLEDGE_EMBED_BATCH_SIZE": "16",
            "KNOWLEDGE_CONCURRENCY": "4",
        }
        self.processes: list[Forked] = []
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.declare("folders.py")
        self._forks = forks
        self._knowledge: Knowledge | None = None

    def declare(self, app: str) -> None:
        """Let processes that start from now on load other declarations, a file of ``apps/``."""
        (self.folder / "app_under_test.py").write_text((APPS / app).read_text())

    def expect_deaths(self) -> None:
        """Let leases and claims of a dead process end soon, though not so soon that a busy machine ends them."""
        self.settings |= {"KNOWLEDGE_LEASE_MS": "5000", "KNOWLEDGE_CLAIM_MS": "4000"}

    @property
    def knowledge(self) -> Knowledge:
        if self._knowledge is None:
            os.environ.update(self._environment)
            sys.path.insert(0, str(self.folder))
            try:
                sys.modules.pop("app_under_test", None)
                self._knowledge = load_knowledge(Settings(app="app_under_test:knowledge"))
            finally:
                sys.path.remove(str(self.folder))
        return self._knowledge

    @property
    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.redis_url)

    def write(
        self, count: int, *, name: str = "docs", text: str = "document number {n} of the set", start: int = 0
    ) -> None:
        """Write ``count`` files of one passage each."""
        target = self.folder / "docs" / name
        target.mkdir(parents=True, exist_ok=True)
        for n in range(start, start + count):
            (target / f"d{n:05}.md").write_text(text.format(n=n))

    def start(self, *command: str, **settings: str) -> Forked:
        """Start ``knowledge-worker <command>``."""
        process = self._forks.start(
            command,
            env={**os.environ, **self._environment, **settings},
            cwd=self.folder,
            log=self.logs / f"{len(self.processes):02}-{command[0]}.log",
        )
        self.processes.append(process)
        return process

    def run(self, *command: str, **settings: str) -> str:
        """Run ``knowledge-worker <command>`` to its end; what it printed."""
        process = self.start(*command, **settings)
        code = process.wait()
        said = (self.logs / f"{self.processes.index(process):02}-{command[0]}.log").read_text()
        assert code == 0, said
        return said

    def log_of(self, process: Forked) -> str:
        """What a process has logged so far."""
        (log,) = self.logs.glob(f"{self.processes.index(process):02}-*.log")
        return log.read_text()

    def stop(self, *processes: Forked) -> None:
        """Stop processes in order, all of them if none is named, and wait."""
        for process in processes or self.processes:
            process.terminate()
        for process in processes or self.processes:
            process.wait()

    def start_workers(self, count: int, **settings: str) -> list[Forked]:
        """Start workers and one beat."""
        workers = [self.start("worker", **settings) for _ in range(count)]
        self.start("beat", **settings)
        return workers

    def view(self, name: str = "docs") -> Collection:
        return self.knowledge.collection(name)

    def until(self, met: Callable[[], object], *, what: str, seconds: float = 90) -> None:
        """Wait for something, and say what did not come."""
        end = time.monotonic() + seconds
        while not met():
            for process in self.processes:
                assert process.poll() in (None, 0, -signal.SIGKILL, -signal.SIGTERM), self.tail()
            if time.monotonic() > end:
                pytest.fail(f"{what} did not happen; {self.view()!r}\n{self.tail()}")
            time.sleep(0.05)

    def until_synced(self, count: int, name: str = "docs") -> None:
        """Wait until a pass succeeded and everything is ready."""
        self.until(
            lambda: (
                (one := self.view(name)).synced_at is not None
                and one.documents.ready == count
                and one.documents.total == count
                and one.running is None
            ),
            what=f"{count} ready documents",
        )

    def holder(self, name: str = "docs") -> Forked | None:
        """The process that holds the collection now."""
        running = self.view(name).running
        if running is None:
            return None
        pid = int(running.split(":")[1])
        return next((process for process in self.processes if process.pid == pid), None)

    def let_time_pass(self) -> None:
        """What time does to a worker that is dead or stopped: its lease, its lock, its claims and every wait end."""
        with psycopg.connect(self.database_url) as connection:
            connection.execute("update collections set lease_until = '-infinity' where holder is not null")
            connection.execute("update documents set claim_until = '-infinity' where claim_until is not null")
            connection.execute("update collections set retry_at = clock_timestamp() where retry_at is not null")
        for name in self.collections:
            self.redis.delete(f"knowledge:{name}")

    def tail(self) -> str:
        return "\n".join(f"--- {path.name}\n" + path.read_text()[-3000:] for path in sorted(self.logs.iterdir()))

    def indexed(self, name: str = "docs") -> dict[str, list[str]]:
        """What the served generation holds: document → passages."""
        with psycopg.connect(self.database_url) as connection:
            found_in = connection.execute(
                """
                select g.id, g.storage from collections k join generations g on g.id = k.serving where k.name = %s
                """,
                [name],
            ).fetchone()
            if found_in is None:
                return {}
            generation, storage = found_in
            own = storage == "own"
            rows = connection.execute(
                f"""
                select d.document_id, c.text from {f"chunks_{generation}" if own else "chunks"} c
                join documents d on d.id = c.document_id
                where {"true" if own else f"c.generation_id = {generation}"} order by d.document_id, c.ord
                """,  # type: ignore[call-overload]
            ).fetchall()
        found: dict[str, list[str]] = {}
        for identifier, text in rows:
            found.setdefault(identifier, []).append(text)
        return found

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        if self._knowledge is not None:
            self._knowledge.close()

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "KNOWLEDGE_DATABASE_URL": self.database_url,
            "KNOWLEDGE_REDIS_URL": self.redis_url,
            "KNOWLEDGE_APP": "app_under_test:knowledge",
            "KNOWLEDGE_PROVIDERS": json.dumps({"fake": {"base_url": self.provider.base_url}}),
            "KNOWLEDGE_LOG_FORMAT": "json",
            "DOCS": str(self.folder / "docs"),
            "MODEL": "fake/model-a",
            "COLLECTIONS": ",".join(self.collections),
            **self.settings,
        }


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Forks the processes of every test."""
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture
def environment() -> Iterator[None]:
    """This process's environment without our settings, put back in the end."""
    saved = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("KNOWLEDGE_")]:
        del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(saved)


@pytest.fixture
def cluster(
    tmp_path: Path, database_url: str, servers: object, provider: ScriptedProvider, forks: Forks, environment: None
) -> Iterator[Cluster]:
    """A deployment without processes yet."""
    parts = urlsplit(servers.redis_url)  # type: ignore[attr-defined]
    redis_url = urlunsplit(parts._replace(path=f"/{next(_redis_numbers) % 16}"))
    redis.Redis.from_url(redis_url).flushdb()
    cluster = Cluster(tmp_path, database_url, redis_url, provider, forks)
    yield cluster
    cluster.close()
