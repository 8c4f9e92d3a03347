"""Passes on a real database: what is read, embedded, deleted, kept and retried (specification §3 to §5)."""

from __future__ import annotations

import pytest

from knowledge_worker import ConfigurationError, NotSearchableError
from knowledge_worker.domain.collection import CollectionStatus
from knowledge_worker.domain.document import DocumentStatus
from knowledge_worker.domain.passes import PassOutcome
from knowledge_worker.errors import CollectionNotIndexedError, CollectionNotReadyError
from knowledge_worker.testing.provider import Rule, ScriptedProvider, quota_exhausted

from .conftest import Documents, Make, ManualClock


def started(knowledge):
    knowledge.node_started(["sync"])
    return knowledge


def run(knowledge, name="docs"):
    return knowledge.run_pass(name)


def texts(result):
    return [match.text for match in result.matches]


def test_a_first_pass_makes_a_collection_searchable(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(a="apples are red", b="bananas are yellow")
    knowledge = started(make(docs.source()))

    with pytest.raises(CollectionNotReadyError, match='Knowledge collection "docs" is not ready.'):
        knowledge.search("red apples", collections=["docs"])
    assert run(knowledge) == "ok"

    assert texts(knowledge.search("red apples"))[0] == "apples are red"
    collection = knowledge.collection("docs")
    assert collection.status is CollectionStatus.READY
    assert collection.synced_at is not None
    assert (collection.documents.ready, collection.chunks) == (2, 2)
    record = knowledge.passes("docs")[0]
    assert record.outcome is PassOutcome.OK
    assert (record.counts.read, record.counts.added, record.counts.embedded, record.counts.calls) == (2, 2, 2, 1)
    assert provider.embedded == {"apples are red": 1, "bananas are yellow": 1, "red apples": 1}


def test_unchanged_documents_cost_no_call_and_no_write(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(**{f"d{n}": f"text number {n}" for n in range(50)})
    knowledge = started(make(docs.source()))
    run(knowledge)
    calls = len(provider.requests)
    before = knowledge._parts.store.database
    with before.transaction() as tx:
        rows = tx.rows("select xmin::text, id from documents order by id")
        chunks = tx.rows("select xmin::text, document_id from chunks order by document_id")

    knowledge.sync("docs")
    assert run(knowledge) == "ok"

    with before.transaction() as tx:
        assert tx.rows("select xmin::text, id from documents order by id") == rows
        assert tx.rows("select xmin::text, document_id from chunks order by document_id") == chunks
    assert len(provider.requests) == calls
    assert knowledge.passes("docs")[0].counts.unchanged == 50


def test_a_changed_document_is_replaced_and_a_vanished_one_deleted(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(a="apples are red", b="bananas are yellow", c="cherries are dark")
    knowledge = started(make(docs.source()))
    run(knowledge)
    docs.contents["a"] = "apples are green"
    del docs.contents["b"]

    knowledge.sync("docs")
    run(knowledge)

    assert sorted(texts(knowledge.search("fruit"))) == ["apples are green", "cherries are dark"]
    counts = knowledge.passes("docs")[0].counts
    assert (counts.changed, counts.deleted, counts.unchanged, counts.embedded) == (1, 1, 1, 1)
    assert provider.count_of("cherries are dark") == 1


def test_calls_carry_64_64_and_22_inputs(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(**{f"d{n:03}": f"text number {n}" for n in range(150)})
    run(started(make(docs.source())))
    assert [len(request.texts) for request in provider.requests] == [64, 64, 22]


def test_blank_documents_are_ready_and_never_sent(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(a="", b=" \n\t ", c="\u200b\ufeff", d="words")
    knowledge = started(make(docs.source()))
    run(knowledge)
    assert list(provider.texts) == ["words"]
    assert knowledge.collection("docs").documents.ready == 4


def test_an_incomplete_read_deletes_nothing_and_is_a_success(make: Make) -> None:
    docs = Documents(a="apples", b="bananas")
    knowledge = started(make(docs.source()))
    run(knowledge)
    del docs.contents["a"]
    docs.contents["c"] = "cherries"
    docs.incomplete = "page 3 answered 503"

    knowledge.sync("docs")
    assert run(knowledge) == "incomplete"

    assert sorted(texts(knowledge.search("fruit"))) == ["apples", "bananas", "cherries"]
    collection = knowledge.collection("docs")
    assert collection.failures == 0
    assert collection.incomplete == ("page 3 answered 503",)
    record = knowledge.passes("docs")[0]
    assert (record.outcome, record.reasons) == (PassOutcome.INCOMPLETE, ("page 3 answered 503",))

    docs.incomplete = None
    knowledge.sync("docs")
    assert run(knowledge) == "ok"
    assert sorted(texts(knowledge.search("fruit"))) == ["bananas", "cherries"]
    assert knowledge.collection("docs").incomplete == ()


def test_a_source_that_raises_fails_the_pass_and_keeps_everything(make: Make, clock: ManualClock) -> None:
    docs = Documents(a="apples")
    knowledge = started(make(docs.source()))
    run(knowledge)
    docs.error = OSError("connection refused")

    knowledge.sync("docs")
    assert run(knowledge).startswith("failed")

    assert texts(knowledge.search("fruit")) == ["apples"]
    collection = knowledge.collection("docs")
    assert "connection refused" in (collection.error or "")
    assert collection.failures == 1
    assert collection.retry_at is not None
    docs.error = None
    assert run(knowledge) == "nothing due"
    clock.advance(5)
    assert run(knowledge) == "ok"
    after = knowledge.collection("docs")
    assert (after.error, after.failures, after.retry_at) == (None, 0, None)


def test_attempts_come_after_5_10_20_up_to_300_seconds(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    docs = Documents(a="apples")
    processes = [started(make(docs.source())) for _ in range(3)]
    provider.script(Rule(status=429))

    def everyone_looks() -> int:
        before = len(provider.requests)
        for knowledge in processes:
            knowledge.run_tick()
            run(knowledge)
        return len(provider.requests) - before

    assert everyone_looks() == 1
    for wait in (5, 10, 20, 40, 80, 160, 300, 300, 300):
        clock.advance(wait - 0.1)
        assert everyone_looks() == 0
        clock.advance(0.1)
        assert everyone_looks() == 1


def test_retry_after_is_honoured(make: Make, provider: ScriptedProvider, clock: ManualClock) -> None:
    knowledge = started(make(Documents(a="apples").source()))
    provider.script(Rule(status=429, headers={"Retry-After": "120"}, times=1))
    run(knowledge)
    collection = knowledge.collection("docs")
    assert collection.retry_at is not None
    assert (collection.retry_at - clock.now).total_seconds() == 120


def test_exhausted_credit_says_so_and_waits_a_quarter_of_an_hour(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    knowledge = started(make(Documents(a="apples").source()))
    provider.script(quota_exhausted())
    run(knowledge)
    collection = knowledge.collection("docs")
    assert "credit" in (collection.error or "").lower()
    assert collection.retry_at is not None
    assert (collection.retry_at - clock.now).total_seconds() >= 900


def test_an_ordinary_sync_waits_for_the_backoff_and_force_does_not(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    knowledge = started(make(Documents(a="apples").source()))
    provider.script(Rule(status=500))
    run(knowledge)
    clock.advance(1)

    knowledge.sync("docs")
    assert run(knowledge) == "nothing due"
    knowledge.sync("docs", force=True)
    assert run(knowledge).startswith("failed")
    assert run(knowledge) == "nothing due"
    assert len(provider.requests) == 2
    provider.clear_script()
    clock.advance(10)
    assert run(knowledge) == "ok"
    assert run(knowledge) == "nothing due"


def test_a_restarted_node_makes_one_attempt_at_once(make: Make, provider: ScriptedProvider, clock: ManualClock) -> None:
    docs = Documents(a="apples")
    first, second = started(make(docs.source())), started(make(docs.source()))
    provider.script(Rule(status=429))
    run(first)
    clock.advance(1)
    restarted = make(docs.source())
    clock.advance(4000)
    run(first)
    clock.advance(1)

    started(restarted)
    attempts = len(provider.requests)
    for knowledge in (first, second, restarted) * 2:
        knowledge.run_tick()
        run(knowledge)
    assert len(provider.requests) == attempts + 1


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


def test_requests_during_a_pass_make_exactly_one_more(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(a="apples")
    knowledge, other = started(make(docs.source())), make(docs.source())
    requested: list[int] = []
    docs.contents = _AskWhileRead(docs.contents, lambda: requested.extend(other.sync("docs") for _ in range(10)))
    assert run(knowledge) == "ok"
    assert len(requested) == 10
    assert docs.reads == 1
    assert run(other) == "ok"
    assert docs.reads == 2
    assert run(knowledge) == "nothing due"


class _AskWhileRead(dict):  # type: ignore[type-arg]
    def __init__(self, contents, ask):  # type: ignore[no-untyped-def]
        super().__init__(contents)
        self._ask = ask

    def items(self):  # type: ignore[no-untyped-def]
        ask, self._ask = self._ask, lambda: None
        ask()
        return super().items()


def test_a_second_worker_leaves_while_one_runs(make: Make, locks) -> None:  # type: ignore[no-untyped-def]
    docs = Documents(a="apples")
    knowledge, other = started(make(docs.source())), make(docs.source())
    outcomes: list[str] = []
    docs.contents = _AskWhileRead(docs.contents, lambda: outcomes.append(run(other)))
    run(knowledge)
    docs.contents = _AskWhileRead(docs.contents, lambda: (locks.forget(), outcomes.append(run(other))))
    knowledge.sync("docs")
    run(knowledge)
    assert outcomes == ["nothing due", "nothing due"] or outcomes == ["busy", "busy"]
    assert docs.reads == 2


def test_the_interval_counts_from_the_end_of_the_last_success(make: Make, clock: ManualClock) -> None:
    docs = Documents(a="apples")
    processes = [started(make(docs.source(), resync_ms=60_000)) for _ in range(3)]
    run(processes[0])
    for _ in range(60):
        for knowledge in processes:
            knowledge.run_tick()
            run(knowledge)
        clock.advance(1)
    assert docs.reads == 1
    for knowledge in processes:
        run(knowledge)
    assert docs.reads == 2
    assert processes[0].passes("docs")[0].trigger == "interval"


def test_a_configuration_error_is_stored_and_never_retried(make: Make, clock: ManualClock) -> None:
    docs = Documents(a="apples")
    knowledge = started(make(docs.source()))
    docs.error = ConfigurationError("no such table")
    assert run(knowledge).startswith("failed")
    for _ in range(10):
        clock.advance(600)
        knowledge.run_tick()
        assert run(knowledge) == "nothing due"
    assert docs.reads == 1
    with pytest.raises(CollectionNotIndexedError, match="no such table"):
        knowledge.sync("docs")
    docs.error = None
    started(make(docs.source()))
    assert run(knowledge) == "ok"


def test_the_first_source_wins_an_id_and_keeps_it_while_incomplete(make: Make) -> None:
    one, two = Documents(shared="from one", a="only one"), Documents(shared="from two", b="only two")
    knowledge = started(make(one.source("one"), two.source("two")))
    run(knowledge)
    assert sorted(texts(knowledge.search("from"))) == ["from one", "only one", "only two"]

    del one.contents["shared"]
    one.incomplete = "page 2 is missing"
    knowledge.sync("docs")
    run(knowledge)
    assert "from one" in texts(knowledge.search("from"))

    one.incomplete = None
    knowledge.sync("docs")
    run(knowledge)
    assert sorted(texts(knowledge.search("from"))) == ["from two", "only one", "only two"]


def test_bad_items_are_reported_without_content_and_the_rest_indexes(make: Make) -> None:
    docs = Documents(ok="fine")
    docs.contents.update(
        nul={"id": "a\0b", "content": "secret words"},
        long={"id": "x" * 256, "content": "secret words"},
        meta={"id": "meta", "content": "secret words", "metadata": {"when": object()}},
        empty={"id": "", "content": "secret words"},
    )
    knowledge = started(make(docs.source()))
    assert run(knowledge) == "ok"
    record = knowledge.passes("docs")[0]
    assert (record.counts.read, record.counts.skipped, record.counts.added) == (5, 4, 1)
    assert len(record.reports) == 4
    assert "secret" not in " ".join(record.reports)


def test_nul_and_lone_surrogates_become_replacement_characters(make: Make) -> None:
    docs = Documents()
    docs.contents["x"] = {
        "id": "x", "content": "null\0byte and \ud800 half", "title": "t\0", "metadata": {"k\0": ["v\udfff"]},
    }  # fmt: skip
    knowledge = started(make(docs.source()))
    assert run(knowledge) == "ok"
    match = knowledge.search("null byte").matches[0]
    assert match.text == "null\ufffdbyte and \ufffd half"
    assert match.title == "t\ufffd"


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


def test_the_deletion_guard_waits_for_a_person(make: Make) -> None:
    docs = Documents(**{f"d{n}": f"text {n}" for n in range(10)})
    knowledge = started(make(docs.source(), max_delete_ratio=0.5))
    run(knowledge)
    docs.contents = {"d0": "text 0"}
    knowledge.sync("docs")
    assert run(knowledge) == "ok"
    collection = knowledge.collection("docs")
    assert collection.documents.total == 10
    assert "--confirm-deletes" in (collection.notice or "")
    knowledge.sync("docs", confirm_deletes=True)
    run(knowledge)
    after = knowledge.collection("docs")
    assert (after.documents.total, after.notice) == (1, None)


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


def test_a_search_stays_within_twenty_thousand_characters(make: Make) -> None:
    docs = Documents(**{f"d{n:02}": f"word{n} " + "same words here again. " * 80 for n in range(20)})
    knowledge = started(make(docs.source()))
    run(knowledge)
    result = knowledge.search("same words", top_k=20)
    assert result.truncated
    assert sum(len(match.text) for match in result.matches) <= 20_000


def test_scores_below_the_least_are_left_out(make: Make) -> None:
    knowledge = started(make(Documents(a="apples are red", b="wholly different things").source()))
    run(knowledge)
    result = knowledge.search("apples are red", min_score=0.9)
    assert texts(result) == ["apples are red"]
    assert result.matches[0].score == pytest.approx(1, abs=1e-3)
