"""Declared collections across processes: cases 2, 3, 25, 27, 43 and 45 of the specification."""

from __future__ import annotations

import itertools
import signal
import socket
import threading
from collections import Counter
from pathlib import Path

import httpx
import psycopg
import pytest

from knowledge_worker import Knowledge, SearchResult
from knowledge_worker.config import Settings
from knowledge_worker.domain.collection import CollectionStatus
from knowledge_worker.domain.passes import PassOutcome
from knowledge_worker.loading import load_knowledge
from knowledge_worker.testing.provider import Rule

from .conftest import APPS, Cluster

pytestmark = pytest.mark.processes


def reads(cluster: Cluster) -> list[int]:
    """The process of each read so far."""
    noted = cluster.folder / "docs" / "reads"
    return [int(line) for line in noted.read_text().splitlines()] if noted.exists() else []


def outcomes(cluster: Cluster) -> list[str]:
    """How each task that a worker took has ended."""
    noted = cluster.folder / "docs" / "outcomes"
    return noted.read_text().splitlines() if noted.exists() else []


def rows(cluster: Cluster, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(cluster.database_url) as connection:
        return connection.execute(query).fetchall()  # type: ignore[call-overload]


def in_the_first_call(cluster: Cluster, workers: int, **settings: str) -> None:
    """Bring a first pass to its first embedding call, which is held."""
    cluster.provider.script(Rule(hold=True, times=1))
    cluster.start_workers(workers, **settings)
    cluster.until(lambda: len(cluster.provider.requests) == 1, what="the first call")


def test_requests_of_three_processes_during_a_pass_make_exactly_one_more(cluster: Cluster) -> None:
    cluster.declare("counted.py")
    cluster.write(10)
    in_the_first_call(cluster, 2)
    before = cluster.view().requested
    script = cluster.folder / "asking.py"
    script.write_text((APPS / "asking.py").read_text())
    asking = [cluster.start("python", str(script), count) for count in ("4", "3", "3")]
    assert [process.wait() for process in asking] == [0, 0, 0], cluster.tail()
    assert cluster.view().requested == before + 10
    cluster.provider.release()
    cluster.until(
        lambda: (one := cluster.view()).done == one.requested and one.running is None, what="an answer to all"
    )

    assert len(reads(cluster)) == 2
    assert [one.outcome for one in cluster.knowledge.passes("docs")] == [PassOutcome.OK] * 2


def test_a_message_that_comes_again_ends_without_a_read_or_a_call(cluster: Cluster) -> None:
    cluster.declare("counted.py")
    cluster.write(100)
    in_the_first_call(cluster, 2)
    queue = cluster.knowledge._parts.queue
    for _ in range(20):
        assert queue.nudge_sync("docs")
    assert queue.nudge_embed("docs", helpers=20)
    cluster.until(lambda: len(outcomes(cluster)) >= 40, what="every copy has ended")
    assert set(outcomes(cluster)) <= {"sync: nothing due", "sync: busy", "embed: nothing to help with"}
    assert len(reads(cluster)) == 1
    assert len(cluster.provider.requests) == 1
    cluster.provider.release()
    cluster.until_synced(100)
    assert set(cluster.provider.texts.values()) == {1}
    assert len(reads(cluster)) == 1


def test_a_pass_longer_than_its_lease_keeps_it(cluster: Cluster) -> None:
    cluster.settings |= {"KNOWLEDGE_LEASE_MS": "4000", "KNOWLEDGE_CLAIM_MS": "4000"}
    cluster.write(20)
    in_the_first_call(cluster, 3)
    holder = cluster.view().running
    ((first,),) = rows(cluster, "select lease_until + interval '1 s' from collections")
    over = f"select clock_timestamp() > '{first}'"
    cluster.until(lambda: rows(cluster, over) == [(True,)], what="the time of the first lease is over")
    assert cluster.view().running == holder
    cluster.provider.release()
    cluster.until_synced(20)
    assert [one.outcome for one in cluster.knowledge.passes("docs")] == [PassOutcome.OK]
    assert set(cluster.provider.texts.values()) == {1}


@pytest.mark.parametrize("storage", ["shared", "own"])
def test_no_search_during_a_switch_mixes_generations(cluster: Cluster, storage: str) -> None:
    cluster.settings["KNOWLEDGE_OWN_TABLE_CHUNKS"] = "10" if storage == "own" else "1000"
    cluster.write(20, text="the first text of document {n}")
    knowledge = cluster.knowledge
    knowledge.node_started(["sync"])
    assert knowledge.run_pass("docs") == "ok"
    knowledge.node_stopped()
    before = cluster.view().serving
    assert before is not None
    cluster.write(20, text="the second text of document {n}")
    cluster.settings["MODEL"] = "fake/model-b"
    seen: list[Counter[str]] = []
    failures: list[BaseException] = []
    over = threading.Event()

    def search() -> None:
        while not over.is_set():
            try:
                result = knowledge.search("text of document", collections="docs", top_k=20)
            except BaseException as error:
                failures.append(error)
                return
            seen.append(versions(result))

    searches = [threading.Thread(target=search) for _ in range(3)]
    for thread in searches:
        thread.start()
    try:
        cluster.until(lambda: len(seen) > 10, what="searches before the switch")
        cluster.start_workers(1)
        cluster.until(
            lambda: (one := cluster.view()).serving is not None and one.serving.number == 2, what="the switch"
        )
        after = len(seen)
        cluster.until(lambda: len(seen) > after + 10 or failures, what="searches after the switch")
    finally:
        over.set()
        for thread in searches:
            thread.join()

    assert failures == []
    assert {tuple(sorted(one.items())) for one in seen} == {(("first", 20),), (("second", 20),)}
    changes = sum(earlier != later for earlier, later in itertools.pairwise(seen[:after] + seen[-10:]))
    assert changes >= 1
    cluster.until(lambda: cluster.view().running is None, what="the end of the pass")
    assert rows(cluster, "select count(*) from generations") == [(1,)]
    (serving,) = rows(cluster, "select serving from collections")
    kept = rows(cluster, "select distinct generation_id from chunks")
    tables = rows(cluster, "select relname::text from pg_class where relname ~ '^chunks_[0-9]+$'")
    assert (kept, tables) == (([], [(f"chunks_{serving[0]}",)]) if storage == "own" else ([serving], []))


def versions(result: SearchResult) -> Counter[str]:
    """How many documents answered with their first, and how many with their second text."""
    return Counter(match.text.split()[1] for match in {match.document: match for match in result.matches}.values())


def test_two_versions_of_the_declarations_side_by_side_undo_nothing(cluster: Cluster) -> None:
    cluster.declare("counted.py")
    cluster.write(5)
    cluster.write(5, name="extra", text="an extra text, number {n}")
    old, new = {"TITLE": "old"}, {"TITLE": "new", "EXTRA": "yes"}
    cluster.start("beat")
    cluster.start("worker", **old)
    cluster.until_synced(5)
    newer = cluster.start("worker", **new)
    cluster.until(lambda: cluster.view().title == "new", what="the new declaration")
    cluster.until_synced(5, "extra")
    restarted = cluster.start("worker", **old)
    cluster.until(lambda: beats_of(cluster, restarted.pid) >= 2, what="heartbeats of a restarted old worker")

    # While both run, the newer declaration stays, its collection too, and only its workers run passes.
    assert cluster.view().title == "new"
    assert cluster.view("extra").status is CollectionStatus.READY
    request = cluster.knowledge.sync("docs")
    cluster.until(lambda: cluster.view().done >= request, what="a pass of the new declaration")
    assert reads(cluster)[-1] == newer.pid

    # The old workers outlive the new one: they mark its collection, and whoever declares it searches it all the same.
    newer.send_signal(signal.SIGSTOP)
    cluster.until(lambda: cluster.view("extra").status is CollectionStatus.ORPHANED, what="the orphan mark")
    cluster.until(lambda: cluster.view().title == "old", what="the old declaration counts again")
    declaring = declared(cluster, new)
    assert len(declaring.search("an extra text", collections="extra").matches) == 5
    declaring.close()

    newer.send_signal(signal.SIGCONT)
    cluster.until(
        lambda: cluster.view("extra").status is CollectionStatus.READY and cluster.view().title == "new",
        what="the new declaration is taken up again",
    )
    cluster.until_synced(5, "extra")
    documents = {text for name in ("docs", "extra") for (text,) in cluster.indexed(name).values()}
    assert len(documents) == 10
    assert {cluster.provider.count_of(text) for text in documents} == {1}


def beats_of(cluster: Cluster, pid: int) -> int:
    """Heartbeats of a worker, as far as its times tell."""
    found = rows(cluster, f"select seen_at - started_at from nodes where id like '%:{pid}:%'")
    return int(found[0][0].total_seconds() / 0.3) if found else 0  # type: ignore[attr-defined]


def declared(cluster: Cluster, settings: dict[str, str]) -> Knowledge:
    """The declarations of other processes in this one."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.syspath_prepend(str(cluster.folder))
        module = Path(cluster.folder / "declared_by_others.py")
        module.write_text((APPS / "counted.py").read_text())
        return load_knowledge(Settings(app="declared_by_others:knowledge"))


def test_one_off_commands_neither_embed_nor_write_and_readiness_does_not_wait(cluster: Cluster) -> None:
    cluster.declare("counted.py")
    cluster.write(10)
    everything = "select to_jsonb(t) from (select * from collections order by id) t"
    for command in (["check"], ["migrate"], ["status"], ["plan", "docs"], ["passes", "docs"]):
        cluster.run(*command)
    assert rows(cluster, everything) == []
    assert cluster.provider.requests == ()

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    cluster.start("api", KNOWLEDGE_PORT=str(port))
    in_the_first_call(cluster, 1)
    cluster.until(lambda: readiness(port) == 200, what="readiness during the first pass")
    assert cluster.view().synced_at is None
    assert cluster.view().running is not None

    read = len(reads(cluster))
    before = rows(cluster, f"{everything} where t.id > 0")
    for command in (["check"], ["migrate"], ["status"], ["passes", "docs"]):
        cluster.run(*command)
    assert without_leases(rows(cluster, f"{everything} where t.id > 0")) == without_leases(before)
    assert len(cluster.provider.requests) == 1
    assert len(reads(cluster)) == read
    cluster.provider.release()
    cluster.until_synced(10)


def without_leases(found: list[tuple[object, ...]]) -> list[dict[str, object]]:
    """Rows without what the worker that runs the pass renews."""
    return [{name: value for name, value in row[0].items() if name != "lease_until"} for row in found]  # type: ignore[attr-defined]


def readiness(port: int) -> int:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=30).status_code
    except httpx.TransportError:
        return 0
