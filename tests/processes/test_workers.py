"""Real workers on one collection: nothing lost, nothing paid twice, whoever dies (cases 1, 3, 4, 6, 45, 46)."""

from __future__ import annotations

import itertools
import json
import signal
import time

import pytest

from knowledge_worker.domain.passes import PassOutcome
from knowledge_worker.testing.provider import Rule

from .conftest import Cluster

pytestmark = pytest.mark.processes


def test_several_workers_embed_each_passage_once(cluster: Cluster) -> None:
    cluster.write(400)
    cluster.provider.delay_s = 0.1
    cluster.start_workers(3)
    cluster.until_synced(400)

    assert set(cluster.provider.embedded.values()) == {1}
    assert len(cluster.provider.embedded) == 400
    assert cluster.provider.max_parallel > 1, "helpers embed beside the holder"
    assert len(cluster.indexed()) == 400
    passes = cluster.knowledge.passes("docs")
    assert all(one.outcome is PassOutcome.OK for one in passes)
    spans = sorted((one.started_at, one.ended_at) for one in passes)
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(spans)), "never in parallel"


def test_a_holder_killed_in_mid_pass_loses_nothing_and_repeats_no_finished_document(cluster: Cluster) -> None:
    cluster.expect_deaths()
    cluster.write(300)
    cluster.provider.delay_s = 0.3
    cluster.settings["KNOWLEDGE_EMBED_CONCURRENCY"] = "1"
    cluster.start_workers(2)
    cluster.until(lambda: cluster.view().documents.ready >= 48, what="three finished calls")
    holder = cluster.holder()
    assert holder is not None
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    cluster.until_synced(300)

    twice = [text for text, count in cluster.provider.texts.items() if count > 1]
    assert len(twice) <= 16, "only what was in flight is paid for again"
    assert len(cluster.indexed()) == 300
    assert [one.outcome for one in cluster.knowledge.passes("docs")].count(PassOutcome.FAILED) == 1


def test_a_helper_killed_in_mid_work_costs_its_claim(cluster: Cluster) -> None:
    cluster.expect_deaths()
    cluster.write(400)
    cluster.provider.delay_s = 0.3
    workers = cluster.start_workers(2, KNOWLEDGE_CONCURRENCY="2")
    cluster.until(lambda: cluster.provider.max_parallel > 1, what="a helper at work")
    holder = cluster.holder()
    victim = next(worker for worker in workers if worker is not holder)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    cluster.until_synced(400)
    assert len(cluster.indexed()) == 400
    assert sum(count - 1 for count in cluster.provider.texts.values()) <= 2 * 2 * 16


def test_losing_all_of_redis_in_mid_pass_loses_nothing(cluster: Cluster) -> None:
    cluster.write(300)
    cluster.provider.delay_s = 0.2
    cluster.start_workers(2)
    cluster.until(lambda: cluster.view().documents.ready >= 32, what="two finished calls")
    cluster.redis.flushdb()
    request = cluster.knowledge.sync("docs")
    cluster.redis.flushdb()
    cluster.until_synced(300)
    cluster.until(lambda: cluster.view().done >= request, what="the request made in between")
    assert set(cluster.provider.embedded.values()) == {1}
    assert len(cluster.indexed()) == 300
    assert {one.outcome for one in cluster.knowledge.passes("docs")} == {PassOutcome.OK}


def test_a_provider_that_answers_429_sees_one_attempt_a_step(cluster: Cluster) -> None:
    cluster.write(200)
    cluster.settings |= {"KNOWLEDGE_RETRY_MS": "1000", "KNOWLEDGE_RETRY_MAX_MS": "4000"}
    cluster.provider.script(Rule(status=429))
    cluster.start_workers(4)
    cluster.until(lambda: len(cluster.provider.requests) >= 4, what="four attempts")
    times = [request.at for request in cluster.provider.requests][:4]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    # Four workers start, each with one attempt of its own, which one pass answers for those already up.
    assert all(gap >= least for gap, least in zip(gaps[-2:], (1.0, 2.0), strict=True)), gaps
    cluster.provider.clear_script()
    cluster.until_synced(200)
    assert cluster.view().failures == 0


def test_a_worker_asked_to_stop_hands_over_at_once(cluster: Cluster) -> None:
    cluster.write(300)
    cluster.provider.delay_s = 0.2
    cluster.start_workers(2)
    cluster.until(lambda: cluster.view().documents.ready >= 32, what="two finished calls")
    holder = cluster.holder()
    assert holder is not None
    holder.send_signal(signal.SIGTERM)
    assert holder.wait(timeout=30) == 0
    cluster.until_synced(300)
    outcomes = [one.outcome for one in cluster.knowledge.passes("docs")]
    assert PassOutcome.CANCELLED in outcomes
    assert PassOutcome.FAILED not in outcomes
    assert set(cluster.provider.embedded.values()) == {1}


def test_a_worker_stopped_past_its_lease_writes_nothing_afterwards(cluster: Cluster) -> None:
    cluster.expect_deaths()
    cluster.write(100)
    cluster.settings["KNOWLEDGE_EMBED_CONCURRENCY"] = "1"
    cluster.provider.script(Rule(hold=True, times=1))
    cluster.start_workers(2)
    cluster.until(lambda: len(cluster.provider.requests) == 1, what="the first call")
    holder = cluster.holder()
    assert holder is not None
    holder.send_signal(signal.SIGSTOP)
    cluster.until(lambda: cluster.holder() not in (None, holder), what="another holder")
    cluster.until_synced(100)
    before = cluster.indexed()
    passes = len(cluster.knowledge.passes("docs"))
    cluster.provider.release()
    holder.send_signal(signal.SIGCONT)
    time.sleep(3)
    assert cluster.indexed() == before
    assert len(before) == 100
    finished = cluster.knowledge.passes("docs")[-1]
    assert finished.outcome is PassOutcome.FAILED
    assert len(cluster.knowledge.passes("docs")) >= passes


def test_an_unchanged_restart_of_everything_makes_no_call(cluster: Cluster) -> None:
    cluster.write(50)
    workers = cluster.start_workers(2)
    cluster.until_synced(50)
    calls = len(cluster.provider.requests)
    passes = len(cluster.knowledge.passes("docs"))
    for process in list(cluster.processes):
        process.terminate()
        process.wait()
    assert all(worker.returncode == 0 for worker in workers)
    cluster.start_workers(2)
    cluster.until(lambda: len(cluster.knowledge.passes("docs")) > passes, what="the start pass")
    cluster.until_synced(50)
    assert len(cluster.provider.requests) == calls


def test_a_providers_limit_holds_for_all_workers_together(cluster: Cluster) -> None:
    limited = {"base_url": cluster.provider.base_url, "requests_per_minute": 600}
    cluster.settings |= {
        "KNOWLEDGE_PROVIDERS": json.dumps({"fake": limited}),
        "KNOWLEDGE_EMBED_BATCH_SIZE": "1",
        "KNOWLEDGE_CLAIM_DOCUMENTS": "2",
    }
    cluster.write(60)
    cluster.start_workers(2)
    cluster.until_synced(60)

    came = sorted(request.at for request in cluster.provider.requests)
    assert len(came) == 60
    # A busy machine sends single requests late; without the limit all of them come within a fraction of this.
    assert came[-1] - came[0] > 0.6 * 59 * 0.1
    assert set(cluster.provider.texts.values()) == {1}
