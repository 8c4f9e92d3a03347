"""Models that change, collections that come and go, deploys side by side (rules 33 to 39)."""

from __future__ import annotations

import pytest

from knowledge_worker import NotSearchableError
from knowledge_worker.domain.collection import CollectionStatus
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Documents, Make, ManualClock, run, started, texts


def test_a_changed_model_is_written_beside_the_served_one_and_switched_to(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    docs = Documents(**{f"d{n}": f"text number {n}" for n in range(200)})
    run(started(make(docs.source(), model="model-a")))
    clock.advance(60)
    new = started(make(docs.source(), model="model-b"))
    provider.script(Rule(times=2), Rule(status=500, times=1))
    assert run(new).startswith("failed")

    collection = new.collection("docs")
    assert collection.status is CollectionStatus.STALE
    assert collection.serving is not None
    assert collection.building is not None
    number = collection.building.number
    with pytest.raises(NotSearchableError, match=r'is being re-embedded; its previous model "fake/model-a" is not'):
        new.search("text number 7", collections="docs")
    old = make(docs.source(), model="model-a")
    assert len(old.search("text number 7").matches) == 5

    embedded = provider.embedded.copy()
    clock.advance(60)
    assert run(new) == "ok"
    after = new.collection("docs")
    assert after.serving is not None
    assert (after.serving.number, after.serving.model, after.building) == (number, "fake/model-b", None)
    assert after.status is CollectionStatus.READY
    assert len(new.search("text number 7").matches) == 5
    twice = {text for text, count in (provider.embedded - embedded).items() if count and embedded[text] == 2}
    assert twice == set(), "what was embedded before the failure was not embedded again"
    with new._parts.store.database.transaction() as tx:
        assert tx.value("select count(distinct generation_id) from chunks") == 1
        assert tx.value("select count(*) from generations") == 1


def test_going_back_to_the_old_model_drops_what_was_begun_and_never_uses_its_number(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    docs = Documents(**{f"d{n}": f"text number {n}" for n in range(100)})
    run(started(make(docs.source(), model="model-a")))
    clock.advance(60)
    provider.script(Rule(times=1), Rule(status=500, times=1))
    run(started(make(docs.source(), model="model-b")))
    clock.advance(60)
    calls = len(provider.requests)
    back = started(make(docs.source(), model="model-a", title="again"))
    assert run(back) == "ok"
    assert len(provider.requests) == calls
    assert back.collection("docs").building is None
    clock.advance(60)
    third = started(make(docs.source(), model="model-c"))
    run(third)
    serving = third.collection("docs").serving
    assert serving is not None
    assert serving.number == 3


def test_an_incomplete_read_does_not_switch_models_and_is_retried(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    docs = Documents(a="apples", b="bananas")
    run(started(make(docs.source(), model="model-a")))
    clock.advance(60)
    new = started(make(docs.source(), model="model-b"))
    docs.incomplete = "page 2"
    assert run(new).startswith("failed")
    collection = new.collection("docs")
    assert (collection.failures, collection.incomplete) == (1, ("page 2",))
    assert collection.serving is not None
    assert collection.serving.model == "fake/model-a"
    docs.incomplete = None
    clock.advance(5)
    calls = len(provider.requests)
    assert run(new) == "ok"
    assert len(provider.requests) == calls
    serving = new.collection("docs").serving
    assert serving is not None
    assert serving.model == "fake/model-b"


def test_a_collection_nobody_declares_is_orphaned_kept_and_taken_up_without_a_call(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    docs = Documents(a="apples")
    run(started(make(docs.source())))
    clock.advance(600)
    other = started(make(Documents(x="other").source(), name="other"))
    assert other.collection("docs").status is CollectionStatus.ORPHANED
    with pytest.raises(NotSearchableError, match="not available"):
        other.search("fruit", collections="docs")
    run(other, "other")
    assert texts(other.search("fruit")) == ["other"]
    declaring = make(docs.source())
    assert texts(declaring.search("fruit", collections="docs")) == ["apples"], "its own declaration counts"
    calls = len(provider.requests)
    started(declaring)
    assert run(declaring) == "ok"
    assert declaring.collection("docs").status is CollectionStatus.READY
    assert len(provider.requests) == calls


def test_an_old_worker_of_a_rolling_deploy_undoes_nothing(make: Make, clock: ManualClock) -> None:
    docs = Documents(a="apples")
    old = started(make(docs.source(), title="old"))
    run(old)
    clock.advance(10)
    new = started(make(docs.source(), title="new"))
    clock.advance(1)
    restarted = started(make(docs.source(), title="old"))
    assert new.collection("docs").title == "new"
    new.sync("docs")
    assert run(restarted) == "left for a worker that declares it"
    assert run(old) == "left for a worker that declares it"
    assert run(new) == "ok"

    new.node_stopped()
    clock.advance(120)
    restarted.node_alive()
    assert restarted.collection("docs").title == "old"
    assert run(restarted) == "ok"


def test_becoming_trusted_waits_for_a_complete_pass_and_untrusted_does_not(make: Make, clock: ManualClock) -> None:
    docs = Documents(a="apples")
    knowledge = started(make(docs.source(trusted=False)))
    run(knowledge)
    assert not knowledge.search("fruit").matches[0].trusted
    clock.advance(600)
    trusting = started(make(docs.source(trusted=True)))
    docs.incomplete = "page 2"
    run(trusting)
    assert not trusting.collection("docs").trusted
    docs.incomplete = None
    trusting.sync("docs")
    run(trusting)
    assert trusting.search("fruit").matches[0].trusted
    clock.advance(600)
    doubting = started(make(docs.source(trusted=False)))
    assert not doubting.search("fruit").matches[0].trusted
