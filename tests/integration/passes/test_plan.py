"""``plan``: what a pass would do, and that looking changes nothing."""

from __future__ import annotations

from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Documents, Make, ManualClock, run, started


def test_a_plan_says_what_the_pass_then_does_and_writes_nothing(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(a="apples are red", b="bananas are yellow", c="cherries are dark")
    knowledge = started(make(docs.source()))
    first = knowledge.plan("docs")
    assert (first.added, first.documents, first.passages, first.reembeds) == (3, 3, 3, False)
    assert not provider.requests
    run(knowledge)

    docs.contents = {"a": "apples are green", "c": "cherries are dark", "d": "dates", "e": "dates", "f": {"id": ""}}
    before = _fingerprint(knowledge)
    plan = knowledge.plan("docs")
    assert _fingerprint(knowledge) == before
    assert len(provider.requests) == 1
    assert (plan.read, plan.added, plan.changed, plan.unchanged, plan.deleted, plan.skipped) == (5, 2, 1, 1, 1, 1)
    assert plan.passages == 2, "equal passages are sent once"

    knowledge.sync("docs")
    run(knowledge)
    counts = knowledge.passes("docs")[0].counts
    assert (counts.added, counts.changed, counts.unchanged, counts.deleted) == (2, 1, 1, 1)
    assert counts.embedded == plan.passages
    after = knowledge.plan("docs")
    assert (after.added, after.changed, after.deleted, after.passages, after.tokens) == (0, 0, 0, 0, 0)


def test_a_plan_of_a_changed_model_counts_everything_that_is_not_embedded_yet(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    docs = Documents(**{f"d{n}": f"text number {n}" for n in range(100)})
    run(started(make(docs.source(), model="model-a")))
    clock.advance(60)
    new = started(make(docs.source(), model="model-b"))
    plan = new.plan("docs")
    assert (plan.reembeds, plan.passages, plan.unchanged) == (True, 100, 100)
    provider.script(Rule(times=1), Rule(status=500, times=1))
    run(new)
    assert new.plan("docs").passages == 36


def test_deletions_held_back_and_the_price_are_said(make: Make) -> None:
    docs = Documents(**{f"d{n}": f"text number {n}" for n in range(10)})
    providers = {"fake": {"base_url": "http://localhost:1/v1", "price_per_million_tokens": 1_000_000}}
    knowledge = started(make(docs.source(), max_delete_ratio=0.5, settings={"providers": providers}))
    run(knowledge)
    docs.contents = {"new": "three new words"}
    plan = knowledge.plan("docs")
    assert (plan.deleted, plan.deletes_held_back) == (10, True)
    assert plan.price == plan.tokens
    docs.incomplete = "page 2"
    assert knowledge.plan("docs").deleted == 0


def _fingerprint(knowledge: object) -> list[object]:
    with knowledge._parts.store.database.transaction() as tx:  # type: ignore[attr-defined]
        return [
            tx.value(f"select coalesce(sum(hashtext(t::text)), 0) from {table} t")
            for table in ("collections", "documents", "chunks", "generations", "passes")
        ]
