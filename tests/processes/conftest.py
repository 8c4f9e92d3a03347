"""Real worker and beat processes over one database, one Redis and a scripted provider."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
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

APP = """
import os
from knowledge_worker import Knowledge, KnowledgeCollection, folder

knowledge = Knowledge(
    collections=[
        KnowledgeCollection(name, model="fake/model-a", sources=[folder(os.environ["DOCS"] + "/" + name)])
        for name in os.environ["COLLECTIONS"].split(",")
    ]
)
"""

_redis_numbers = itertools.count(1)


class Cluster:
    """Processes of one deployment; what a test changes are its folders, its provider and its processes.

    Attributes:
        knowledge: the same declarations in the test's own process, to ask and to look.
    """

    def __init__(self, folder: Path, database_url: str, redis_url: str, provider: ScriptedProvider) -> None:
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
        self.processes: list[subprocess.Popen[bytes]] = []
        self.logs = folder / "logs"
        self.logs.mkdir()
        (folder / "app_under_test.py").write_text(APP)
        self._knowledge: Knowledge | None = None

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

    def start(self, command: str, **settings: str) -> subprocess.Popen[bytes]:
        """Start ``knowledge-worker <command>``."""
        log = (self.logs / f"{len(self.processes)}-{command}.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "knowledge_worker.cli", command],
            env={**os.environ, **self._environment, **settings},
            cwd=self.folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        log.close()
        self.processes.append(process)
        return process

    def start_workers(self, count: int, **settings: str) -> list[subprocess.Popen[bytes]]:
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

    def holder(self, name: str = "docs") -> subprocess.Popen[bytes] | None:
        """The process that holds the collection now."""
        running = self.view(name).running
        if running is None:
            return None
        pid = int(running.split(":")[1])
        return next((process for process in self.processes if process.pid == pid), None)

    def tail(self) -> str:
        return "\n".join(f"--- {path.name}\n" + path.read_text()[-3000:] for path in sorted(self.logs.iterdir()))

    def indexed(self, name: str = "docs") -> dict[str, list[str]]:
        """What the served generation holds: document → passages."""
        with psycopg.connect(self.database_url) as connection:
            rows = connection.execute(
                """
                select d.document_id, c.text from collections k
                join chunks c on c.generation_id = k.serving join documents d on d.id = c.document_id
                where k.name = %s order by d.document_id, c.ord
                """,
                [name],
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
            "COLLECTIONS": ",".join(self.collections),
            **self.settings,
        }


@pytest.fixture
def cluster(
    tmp_path: Path, database_url: str, servers: object, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """A deployment without processes yet."""
    for name in [name for name in os.environ if name.startswith("KNOWLEDGE_")]:
        monkeypatch.delenv(name)
    parts = urlsplit(servers.redis_url)  # type: ignore[attr-defined]
    redis_url = urlunsplit(parts._replace(path=f"/{next(_redis_numbers) % 16}"))
    redis.Redis.from_url(redis_url).flushdb()
    saved = dict(os.environ)
    cluster = Cluster(tmp_path, database_url, redis_url, provider)
    yield cluster
    cluster.close()
    os.environ.clear()
    os.environ.update(saved)
