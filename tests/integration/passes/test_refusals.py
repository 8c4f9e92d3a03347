"""Texts a provider refuses, answers that are junk, workers that vanish (rules 27, 28, 31)."""

from __future__ import annotations

import pytest

from knowledge_worker.domain.collection import CollectionStatus
from knowledge_worker.domain.document import DocumentStatus
from knowledge_worker.domain.passes import PassOutcome
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Documents, Make, ManualClock, run, started, texts


def test_a_refused_document_is_failed_alone(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(**{f"d{n}": f"text number {n}" for n in range(20)}, bad="POISON pill")
    knowledge = started(make(docs.source()))
    provider.script(Rule(status=400, contains="POISON"))

    assert run(knowledge) == "ok"

    collection = knowledge.collection("docs")
    assert (collection.documents.ready, collection.documents.failed) == (20, 1)
    assert knowledge.passes("docs")[0].counts.failed == 1
    provider.clear_script()
    knowledge.sync("docs")
    run(knowledge)
    assert knowledge.collection("docs").documents.failed == 1, "an ordinary pass does not pay for it again"
    knowledge.sync("docs", force=True)
    run(knowledge)
    assert knowledge.collection("docs").documents.failed == 0


def test_one_refused_document_alone_is_failed_too(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(bad="POISON pill")
    knowledge = started(make(docs.source()))
    provider.script(Rule(status=413, contains="POISON"))
    assert run(knowledge) == "ok"
    assert knowledge.collection("docs").documents.failed == 1


def test_when_every_text_is_refused_the_pass_fails(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(a="apples", b="bananas", c="cherries")
    knowledge = started(make(docs.source()))
    provider.script(Rule(status=400))
    assert run(knowledge).startswith("failed")
    collection = knowledge.collection("docs")
    assert collection.documents.pending == 3
    assert "every text" in (collection.error or "")


@pytest.mark.parametrize(
    "body", ["not_json", "too_few", "too_many", "nan", "zeros", "no_data", "mixed_dimensions", "bad_base64"]
)
def test_junk_answers_fail_the_pass_and_store_nothing(make: Make, provider: ScriptedProvider, body: str) -> None:
    knowledge = started(make(Documents(a="apples", b="bananas").source()))
    provider.script(Rule(body=body))  # type: ignore[arg-type]
    assert run(knowledge).startswith("failed")
    collection = knowledge.collection("docs")
    assert (collection.documents.pending, collection.chunks) == (2, 0)


def test_vectors_of_other_dimensions_never_enter_a_generation(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(a="apples")
    knowledge = started(make(docs.source()))
    run(knowledge)
    docs.contents["b"] = "bananas"
    provider.script(Rule(body="wrong_dimensions", times=1))
    knowledge.sync("docs")
    assert run(knowledge).startswith("failed")
    assert "dimensions" in (knowledge.collection("docs").error or "")
    assert texts(knowledge.search("fruit")) == ["apples"]


def test_a_worker_that_vanished_costs_a_failure_and_its_documents_are_not_embedded_again(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    docs = Documents(**{f"d{n:03}": f"text number {n}" for n in range(100)})
    knowledge = started(make(docs.source()))
    store = knowledge._parts.store
    key = store.collections.find("docs").key
    lease = store.leases.acquire(key, holder="vanished", declaration=knowledge._parts.declared[0].fingerprint)
    assert lease is not None
    assert run(knowledge) == "nothing due"
    clock.advance(301)
    knowledge.run_tick()
    collection = knowledge.collection("docs")
    assert (collection.failures, collection.running) == (1, None)
    assert "stopped answering" in (collection.error or "")
    clock.advance(5)
    assert run(knowledge) == "ok"
    assert knowledge.passes("docs")[1].outcome is PassOutcome.FAILED
    assert set(provider.embedded.values()) == {1}


def test_a_document_that_takes_its_worker_with_it_is_failed_by_name(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    docs = Documents(good="fine", poison="kills its worker")
    knowledge = started(make(docs.source()))
    store = knowledge._parts.store
    provider.script(Rule(status=500, times=1))
    run(knowledge)
    clock.advance(3600)
    lease = store.leases.acquire(
        store.collections.find("docs").key, holder="gone", declaration=knowledge._parts.declared[0].fingerprint
    )
    building = store.collections.find("docs").building
    for alone in (False, True, True, True):
        claimed = store.documents.claim(lease.guard, building, token="gone", limit=10, max_chars=10_000, alone=alone)
        assert len(claimed) == (1 if alone else 2), "after a death each is tried alone"
        clock.advance(130)
    store.leases.give_up(lease, claim_token="another", reason="test")
    clock.advance(3600)
    provider.clear_script()
    assert run(knowledge) == "ok"
    counts = knowledge.collection("docs").documents
    assert counts.total == 2
    assert counts.failed == 1


def test_statuses_of_documents_are_honest(make: Make, provider: ScriptedProvider) -> None:
    assert [status.value for status in DocumentStatus] == ["pending", "ready", "failed"]
    docs = Documents(a="apples")
    knowledge = started(make(docs.source()))
    provider.script(Rule(status=500))
    run(knowledge)
    assert knowledge.collection("docs").documents.pending == 1
    assert knowledge.collection("docs").status is CollectionStatus.PENDING


def test_failed_documents_are_listed_with_their_reason(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(good="fine", bad="first line\n\nPOISON pill")
    knowledge = started(make(docs.source()))
    provider.script(Rule(status=400, contains="POISON"))
    run(knowledge)
    (failed,) = knowledge.failed_documents("docs")
    assert failed.id == "bad"
    assert failed.error.startswith("Passage 1 (lines 1-3) was refused")
    assert "POISON" not in failed.error
