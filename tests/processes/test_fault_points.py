"""A worker is killed at each step of a pass, and another one finishes: nothing is lost and next to nothing paid twice.

In flight are, for each task that embeds, the passages of one call and of the answers of the last 0.2 s. The provider
here takes longer than that, a call has the passages of one claim, 8 documents of one passage, and the process that dies
runs one such task. So at most 8 passages are sent twice, and none a third time.
"""

from __future__ import annotations

import signal

import psycopg
import pytest

from knowledge_worker.domain.passes import PassOutcome
from knowledge_worker.indexing.embed import SETTLED_EVERY_S

from .conftest import Cluster
from .forked import Forked

pytestmark = pytest.mark.processes

DOCUMENTS = 40
CLAIMED = 8

ANYWHERE = [
    "leases.acquire:after:1",
    "generations.begin:after:1",
    "reading.store:after:1",  # between two batches of documents
    "documents.claim:after:2",
    "generations.settle:before:2",  # the provider was paid, and nothing is stored
    "generations.settle:after:2",
    "generations.fit_storage:inside:2",  # while the own table is indexed
    "leases.succeed:before:1",
]
OF_A_CHANGE = [
    "generations.begin:before:1",
    "reading.store:before:2",
    "reading.delete_vanished:before:1",
    "reading.delete_vanished:after:1",
    "generations.fit_storage:before:1",
    "generations.fit_storage:after:1",
    "leases.succeed:after:1",  # switched, and the old generation is there
    "generations.drop_unused:before:1",
    "tables.drop_unused_tables:before:1",
    "generations.drop_unused:after:1",
]
OF_A_HELPER = [
    "leases.join:after:1",
    "documents.claim:after:1:helper",
    "generations.settle:before:1:helper",
    "generations.settle:after:1:helper",
]


@pytest.fixture
def dying(cluster: Cluster) -> Cluster:
    """Workers that die once, of collections that get a table of their own."""
    cluster.declare("dying.py")
    cluster.settings |= {
        "KNOWLEDGE_READ_BATCH": "16",
        "KNOWLEDGE_CLAIM_DOCUMENTS": str(CLAIMED),
        "KNOWLEDGE_EMBED_BATCH_SIZE": str(CLAIMED),
        "KNOWLEDGE_EMBED_CONCURRENCY": "1",
        "KNOWLEDGE_OWN_TABLE_CHUNKS": "20",
        "DIED": str(cluster.folder / "died"),
    }
    return cluster


@pytest.mark.parametrize("point", ANYWHERE)
def test_a_worker_killed_in_a_first_ingest(dying: Cluster, point: str) -> None:
    dying.write(DOCUMENTS)
    dying.start("beat")
    one_dies_another_finishes(dying, point)

    is_in_step(dying, model="model-a")
    assert [one.outcome for one in dying.knowledge.passes("docs")].count(PassOutcome.FAILED) == 1


@pytest.mark.parametrize("point", ANYWHERE + OF_A_CHANGE)
def test_a_worker_killed_while_the_model_changes(dying: Cluster, point: str) -> None:
    dying.write(DOCUMENTS)
    dying.knowledge.node_started(["sync"])
    assert dying.knowledge.run_pass("docs") == "ok"
    dying.knowledge.node_stopped()
    before = dying.view().serving
    assert before is not None
    dying.provider.reset()
    for n in range(5):
        (dying.folder / "docs" / "docs" / f"d{n:05}.md").unlink()
    dying.write(3, text="document number {n}, written anew", start=DOCUMENTS - 3)
    dying.settings["MODEL"] = "fake/model-b"
    dying.start("beat")
    one_dies_another_finishes(dying, point)

    is_in_step(dying, model="model-b")
    after = dying.view().serving
    assert after is not None
    assert after.number == before.number + 1, "the generation that was begun was finished, not begun again"


@pytest.mark.parametrize("point", OF_A_HELPER)
def test_a_helper_killed_at_its_steps(dying: Cluster, point: str) -> None:
    dying.write(DOCUMENTS)
    dying.settings["KNOWLEDGE_EMBED_CONCURRENCY"] = "2"
    dying.provider.delay_s = SETTLED_EVERY_S + 0.02
    dying.start("beat")
    helper = dying.start("worker", FAULT=point, KNOWLEDGE_QUEUES="embed", KNOWLEDGE_CONCURRENCY="1")
    dying.start("worker", KNOWLEDGE_QUEUES="control,sync")
    dies(dying, helper)
    let_claims_end(dying)
    dying.until_synced(DOCUMENTS)

    is_in_step(dying, model="model-a")
    assert {one.outcome for one in dying.knowledge.passes("docs")} == {PassOutcome.OK}, "the holder went on"


def one_dies_another_finishes(cluster: Cluster, point: str) -> None:
    answers_come_slowly_enough(cluster, point)
    dies(cluster, cluster.start("worker", FAULT=point))
    cluster.let_time_pass()
    begun = len(cluster.knowledge.passes("docs"))
    cluster.start("worker")
    cluster.until(
        lambda: (
            (one := cluster.view()).running is None
            and one.done == one.requested
            and one.error is None
            and len(cluster.knowledge.passes("docs")) > begun
        ),
        what="another worker finishes",
    )


def answers_come_slowly_enough(cluster: Cluster, point: str) -> None:
    """Answers that come faster are stored together; these are not, so that what is in flight is one claim."""
    if point.startswith(("documents.claim", "generations.settle")):
        cluster.provider.delay_s = SETTLED_EVERY_S + 0.02


def dies(cluster: Cluster, victim: Forked) -> None:
    cluster.until(lambda: victim.poll() is not None, what="the worker dies at its step")
    assert victim.poll() == -signal.SIGKILL, cluster.tail()
    cluster.provider.delay_s = 0


def let_claims_end(cluster: Cluster) -> None:
    with psycopg.connect(cluster.database_url) as connection:
        connection.execute(
            "update documents d set claim_until = '-infinity' from collections c "
            "where d.collection_id = c.id and d.claim_token is not null and d.claim_token <> c.holder"
        )


def is_in_step(cluster: Cluster, *, model: str) -> None:
    """The index equals the sources, nothing is left over, and nothing beyond what was in flight was paid twice."""
    files = (cluster.folder / "docs" / "docs").iterdir()
    assert cluster.indexed() == {file.name: [file.read_text()] for file in files}
    sent = [text for one in cluster.provider.requests if one.model == model for text in one.texts]
    assert len(sent) == sum(len(one.texts) for one in cluster.provider.requests), "no other model was asked"
    assert set(sent) == {file.read_text() for file in (cluster.folder / "docs" / "docs").iterdir()}
    assert len(sent) - len(set(sent)) <= CLAIMED
    assert max(sent.count(text) for text in set(sent)) <= 2
    with psycopg.connect(cluster.database_url) as connection:

        def one(query: str) -> object:
            row = connection.execute(query).fetchone()  # type: ignore[call-overload]
            assert row is not None
            return row[0]

        assert one("select count(*) from generations") == 1
        serving = one("select serving from collections")
        tables = "select coalesce(array_agg(relname::text), '{}') from pg_class where relname ~ '^chunks_[0-9]+$'"
        assert one(tables) == [f"chunks_{serving}"]
        assert one("select count(*) from chunks") == 0, "nothing is left in the shared table"
        assert one("select count(*) from documents where claim_token is not null") == 0
