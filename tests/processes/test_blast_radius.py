"""A broken source, a hanging one, a broken provider, a poison document and a large collection: the others go on."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Cluster

pytestmark = pytest.mark.processes


@pytest.fixture
def other_provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as other:
        other.script(Rule(status=500))
        yield other


def test_a_good_collection_is_indexed_and_kept_in_step_beside_all_of_them(
    cluster: Cluster, other_provider: ScriptedProvider
) -> None:
    cluster.declare("neighbours.py")
    providers = {"fake": {"base_url": cluster.provider.base_url}, "other": {"base_url": other_provider.base_url}}
    cluster.settings |= {
        "KNOWLEDGE_PROVIDERS": json.dumps(providers),
        "KNOWLEDGE_PROGRESS_TIMEOUT_MS": "2000",
        "KNOWLEDGE_LEASE_MS": "3000",
        "KNOWLEDGE_CLAIM_MS": "3000",
        "KNOWLEDGE_RETRY_MAX_MS": "600",
        "KNOWLEDGE_CONCURRENCY": "4",
    }
    cluster.provider.script(Rule(status=400, contains="POISON"))
    cluster.provider.delay_s = 0.1
    cluster.write(5)
    (worker,) = cluster.start_workers(1)
    cluster.until_synced(5)

    # Each of them has failed more often than the worker has threads, and one is still at work.
    cluster.until(lambda: all(cluster.view(name).failures > 4 for name in ("raising", "failing")), what="failures")
    cluster.until(lambda: "source_left_behind" in cluster.log_of(worker), what="a read that hangs")
    cluster.until(lambda: cluster.view("hanging").failures > 4, what="more tries of it")
    cluster.write(5, start=5)
    request = cluster.knowledge.sync("docs")
    cluster.until(lambda: cluster.view().done >= request, what="a pass of the good one")

    assert cluster.view().documents.ready == 10
    assert [one.outcome for one in cluster.knowledge.passes("docs")] == ["ok", "ok"]
    assert "still hangs in this worker" in (cluster.view("hanging").error or "")
    assert worker.poll() is None
    cluster.until(lambda: cluster.view("large").documents.ready == 3000, what="the large one")
    poisonous = cluster.view("poisonous").documents
    assert (poisonous.ready, poisonous.failed) == (1, 1)
