"""PostgreSQL and Redis restarted in mid-pass, and a worker that slept through the end of its lease.

The servers are this module's own, so that no other test notices.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from knowledge_worker.domain.passes import PassOutcome
from knowledge_worker.embedded.postgres import EmbeddedPostgres
from knowledge_worker.embedded.process import Server
from knowledge_worker.embedded.servers import Servers, start_servers
from knowledge_worker.embedded.valkey import EmbeddedValkey
from knowledge_worker.indexing.embed import SETTLED_EVERY_S
from knowledge_worker.store.postgres.migrate import migrate
from knowledge_worker.testing.provider import ScriptedProvider

from .conftest import Cluster
from .forked import Forks

pytestmark = pytest.mark.processes

DOCUMENTS = 240
CLAIMED = 16
TASKS = 4


@pytest.fixture(scope="module")
def own_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = start_servers(tmp_path_factory.mktemp("own") / "data")
    yield servers
    servers.stop()


@pytest.fixture
def postgres(own_servers: Servers) -> EmbeddedPostgres:
    return next(part for part in own_servers.parts if isinstance(part, EmbeddedPostgres))


@pytest.fixture
def valkey(own_servers: Servers) -> EmbeddedValkey:
    return next(part for part in own_servers.parts if isinstance(part, EmbeddedValkey))


@pytest.fixture
def cluster(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    own_servers: Servers,
    provider: ScriptedProvider,
    forks: Forks,
    environment: None,
) -> Iterator[Cluster]:
    """Two workers and a beat in the middle of a first pass."""
    assert own_servers.database_url is not None
    assert own_servers.redis_url is not None
    name = f"restarts_{abs(hash(request.node.name))}"
    with psycopg.connect(own_servers.database_url, autocommit=True) as connection:
        connection.execute(f"create database {name}")  # type: ignore[call-overload]
    database_url = make_url(own_servers.database_url).set(database=name).render_as_string(hide_password=False)
    migrate(database_url)
    cluster = Cluster(tmp_path, database_url, own_servers.redis_url, provider, forks)
    cluster.redis.flushdb()
    cluster.settings["KNOWLEDGE_EMBED_CONCURRENCY"] = str(TASKS)
    cluster.write(DOCUMENTS)
    cluster.provider.delay_s = SETTLED_EVERY_S + 0.05
    cluster.start_workers(2)
    cluster.until(lambda: cluster.view().documents.ready >= 3 * CLAIMED, what="some finished calls")
    cluster.until(lambda: cluster.provider.max_parallel > 1, what="helpers at work")
    yield cluster
    cluster.close()


def test_postgresql_restarted_in_mid_pass_costs_what_was_in_flight(
    cluster: Cluster, postgres: EmbeddedPostgres
) -> None:
    kill(postgres)  # immediate: nothing is said to anyone, the log is replayed at the start
    postgres.start()
    deaths: set[int] = set()
    cluster.until(lambda: deaths.add(counted_deaths(cluster)) or is_synced(cluster), what="the pass is finished")

    assert deaths == {0}, "no worker died, and no document is suspected of it"
    is_in_step(cluster)
    sent = cluster.provider.texts
    assert sum(count - 1 for count in sent.values()) <= TASKS * CLAIMED
    assert max(sent.values()) <= 2
    assert cluster.view().failures == 0
    all_live_and_work(cluster)


def test_redis_restarted_empty_in_mid_pass_costs_nothing(cluster: Cluster, valkey: EmbeddedValkey) -> None:
    kill(valkey)
    request = cluster.knowledge.sync("docs")
    shutil.rmtree(next(valkey._data.glob("appendonlydir")))
    valkey.start()
    assert cluster.redis.dbsize() < 10, "it has forgotten everything but what the workers told it since"
    cluster.until(lambda: cluster.view().done >= request and is_synced(cluster), what="the passes are finished")

    is_in_step(cluster)
    assert set(cluster.provider.texts.values()) == {1}
    assert {one.outcome for one in cluster.knowledge.passes("docs")} == {PassOutcome.OK}
    all_live_and_work(cluster)


def kill(server: Server) -> None:
    server.kill()
    while server.poll() is None:
        time.sleep(0.01)


def is_synced(cluster: Cluster) -> bool:
    one = cluster.view()
    return one.synced_at is not None and one.running is None and one.documents.ready == DOCUMENTS


def counted_deaths(cluster: Cluster) -> int:
    with psycopg.connect(cluster.database_url) as connection:
        row = connection.execute("select max(deaths) from documents").fetchone()
        assert row is not None
        return row[0]


def is_in_step(cluster: Cluster) -> None:
    files = (cluster.folder / "docs" / "docs").iterdir()
    assert cluster.indexed() == {file.name: [file.read_text()] for file in files}


def all_live_and_work(cluster: Cluster) -> None:
    """No process ended, and a new document is indexed without anyone's help."""
    assert [process.poll() for process in cluster.processes] == [None, None, None]
    cluster.write(1, start=DOCUMENTS)
    request = cluster.knowledge.sync("docs")
    cluster.until(lambda: cluster.view().done >= request, what="the next pass")
    is_in_step(cluster)


@pytest.fixture
def sleeper(
    tmp_path: Path, database_url: str, servers: object, provider: ScriptedProvider, forks: Forks, environment: None
) -> Iterator[Cluster]:
    """A deployment whose first worker waits between the read of its source and the first write."""
    cluster = Cluster(tmp_path, database_url, servers.redis_url, provider, forks)  # type: ignore[attr-defined]
    cluster.declare("paused.py")
    # So long that its timer does not find out before its writes do.
    cluster.settings |= {"KNOWLEDGE_LEASE_MS": "3600000", "KNOWLEDGE_CLAIM_MS": "3600000"}
    yield cluster
    cluster.close()


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
def test_what_a_worker_read_before_it_lost_the_collection_is_not_written(sleeper: Cluster, guarded: bool) -> None:
    cluster = sleeper
    cluster.write(10, text="old words {n}")
    pause = cluster.folder / "docs" / "pause"
    pause.touch()
    first = cluster.start("worker", **({} if guarded else {"NO_GUARD": "1"}))
    cluster.until(pause.with_name("paused").exists, what="the first worker has read")
    first.send_signal(signal.SIGSTOP)
    cluster.write(10, text="new words {n}")
    cluster.let_time_pass()
    cluster.start("beat")
    second = cluster.start("worker")
    cluster.until_synced(10)
    second.send_signal(signal.SIGSTOP)  # or it would soon mend what the control is to show

    pause.unlink()
    first.send_signal(signal.SIGCONT)

    new = {f"d{n:05}.md": f"new words {n}" for n in range(10)}
    if guarded:
        cluster.until(lambda: "lease_lost" in cluster.log_of(first), what="the first worker leaves")
        assert stored(cluster) == new
        assert {name: [text] for name, text in new.items()} == cluster.indexed()
        assert [one.outcome for one in cluster.knowledge.passes("docs")] == [PassOutcome.OK, PassOutcome.FAILED]
    else:
        found: set[str] = set()  # for a moment only: the worker's next pass mends it
        cluster.until(lambda: found.update(stored(cluster).values()) or found - {*new.values()}, what="a stale write")
        assert found - {*new.values()} <= {f"old words {n}" for n in range(10)}


def stored(cluster: Cluster) -> dict[str, str]:
    with psycopg.connect(cluster.database_url) as connection:
        return dict(connection.execute("select document_id, content from documents").fetchall())
