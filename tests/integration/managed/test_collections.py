"""Managed collections (rules 43, 44, 47–50, cases 28, 38 and 44)."""

from __future__ import annotations

import threading

import psycopg
import pytest

from knowledge_worker import ConfigurationError, Knowledge, KnowledgeCollection, define_knowledge_source
from knowledge_worker.domain.collection import CollectionKind, CollectionStatus
from knowledge_worker.domain.document import DocumentStatus
from knowledge_worker.errors import (
    CollectionDeclaredError,
    CollectionExistsError,
    CollectionNotFoundError,
    CollectionNotReadyError,
    InvalidInputError,
    NoDefaultModelError,
)
from knowledge_worker.ports import LockState
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Make, Providers, found


def declared(name: str = "docs") -> KnowledgeCollection:
    source = define_knowledge_source(documents=lambda: iter([{"id": "a", "content": "apples"}]))
    return KnowledgeCollection(name, model="fake/model-a", sources=[source])


def rows(database_url: str, table: str) -> int:
    with psycopg.connect(database_url) as connection:
        row = connection.execute(f"select count(*) from {table}").fetchone()  # type: ignore[call-overload]
    assert row is not None
    return row[0]


def until_sent(provider: ScriptedProvider, text: str, times: int) -> None:
    """Wait until a text came to the provider so often, answered or not."""
    while (seen := len(provider.requests)) >= 0 and provider.texts[text] < times:
        provider.wait_for_requests(seen + 1)


def test_a_new_one_is_pending_until_its_empty_pass(make: Make, provider: ScriptedProvider) -> None:
    knowledge = make()
    created = knowledge.create_collection("notes", title="Notes", description="What we noted.")
    assert (created.kind, created.status, created.trusted) == (
        CollectionKind.MANAGED, CollectionStatus.PENDING, False,
    )  # fmt: skip
    assert (created.title, created.description, created.model) == ("Notes", "What we noted.", "fake/model-a")
    with pytest.raises(CollectionNotReadyError):
        knowledge.search("anything", collections="notes")
    assert knowledge.run_pass("notes") == "ok"
    ready = knowledge.collection("notes")
    assert (ready.status, ready.trusted) == (CollectionStatus.READY, False)
    assert knowledge.search("anything", collections="notes").matches == ()
    assert not provider.requests


def test_names_that_are_refused(make: Make) -> None:
    code = make(declared("docs"), declared("gone"))
    code.node_started(["sync"])
    code.node_stopped()
    knowledge = make(declared("docs"))
    knowledge.node_started(["sync"])
    assert knowledge.collection("gone").status is CollectionStatus.ORPHANED
    with pytest.raises(InvalidInputError, match="api-docs"):
        knowledge.create_collection("API Docs")
    with pytest.raises(CollectionDeclaredError):
        knowledge.create_collection("docs")
    with pytest.raises(CollectionExistsError):
        knowledge.create_collection("gone")
    with pytest.raises(CollectionExistsError):
        make().create_collection("docs")
    knowledge.create_collection("notes")
    with pytest.raises(CollectionExistsError):
        knowledge.create_collection("notes")


def test_the_code_cannot_declare_what_is_managed(make: Make) -> None:
    make().create_collection("notes")
    clash = make(declared("notes"))
    assert any("notes" in problem for problem in clash.check(servers=False)) is False
    with pytest.raises(ConfigurationError, match="managed"):
        clash.node_started(["sync"])
    assert clash.collection("notes").kind is CollectionKind.MANAGED


@pytest.mark.parametrize("model", [None, "nowhere/model"])
def test_without_a_usable_default_model_none_is_created(make: Make, model: str | None) -> None:
    knowledge = make(model=model)
    with pytest.raises(NoDefaultModelError):
        knowledge.create_collection("notes")
    with pytest.raises(CollectionNotFoundError):
        knowledge.collection("notes")


def test_deleting_leaves_nothing_behind(make: Make, database_url: str) -> None:
    knowledge = make(own_table_chunks=20, shared_table_chunks=5)
    knowledge.create_collection("notes")
    knowledge.create_collection("other")
    for n in range(40):
        knowledge.put_document("notes", f"d{n}", f"text number {n}")
    knowledge.put_document("other", "a", "apples")
    knowledge.run_pass("notes")
    knowledge.run_pass("other")
    assert rows(database_url, "pg_class where relname ~ '^chunks_[0-9]+$'") == 1

    knowledge.delete_collection("notes")

    with pytest.raises(CollectionNotFoundError):
        knowledge.collection("notes")
    with pytest.raises(CollectionNotFoundError):
        knowledge.search("text", collections="notes")
    with pytest.raises(CollectionNotFoundError):
        knowledge.delete_collection("notes")
    assert found(knowledge, "apples", "other") == {"a": "apples"}
    counted = {table: rows(database_url, table) for table in ("collections", "documents", "generations", "chunks")}
    assert counted == {"collections": 1, "documents": 1, "generations": 1, "chunks": 1}
    assert rows(database_url, "pg_class where relname ~ '^chunks_[0-9]+$'") == 0


def test_declared_ones_are_deleted_once_orphaned_only(make: Make) -> None:
    code = make(declared("docs"))
    code.node_started(["sync"])
    code.run_pass("docs")
    for process in (code, make()):
        with pytest.raises(CollectionDeclaredError):
            process.delete_collection("docs")
    code.node_stopped()
    make().node_started(["sync"])
    with pytest.raises(CollectionDeclaredError):
        code.delete_collection("docs")
    make().delete_collection("docs")
    with pytest.raises(CollectionNotFoundError):
        make().collection("docs")


@pytest.mark.parametrize("anew", [False, True])
def test_one_deleted_in_mid_pass_leaves_no_trace(make: Make, provider: ScriptedProvider, anew: bool) -> None:
    worker, knowledge = make(), make()
    knowledge.create_collection("notes")
    knowledge.put_document("notes", "old", "version AAA")
    provider.script(Rule(hold=True, contains="AAA"))
    outcome: list[str] = []
    running = threading.Thread(target=lambda: outcome.append(worker.run_pass("notes")))
    running.start()
    provider.wait_for_requests(1)

    knowledge.delete_collection("notes")
    if anew:
        knowledge.create_collection("notes")
        knowledge.put_document("notes", "new", "version BBB")
    provider.release()
    running.join(60)

    assert outcome == ["gone"]
    if anew:
        assert knowledge.run_pass("notes") == "ok"
        assert found(knowledge, "version") == {"new": "version BBB"}
        assert [one.id for one in knowledge.list_documents("notes").documents] == ["new"]
        assert len(knowledge.passes("notes")) == 1
        assert knowledge.collection("notes").error is None


def test_one_made_anew_in_mid_pass_does_not_wait_for_the_old_pass(make: Make, provider: ScriptedProvider) -> None:
    worker, knowledge = make(), make()
    knowledge.create_collection("notes")
    knowledge.put_document("notes", "old", "version AAA")
    provider.script(Rule(hold=True, contains="AAA"))
    ended: list[str] = []
    running = threading.Thread(target=lambda: ended.append(worker.run_pass("notes")))
    running.start()
    provider.wait_for_requests(1)
    knowledge.delete_collection("notes")
    knowledge.create_collection("notes")
    knowledge.put_document("notes", "new", "version BBB")
    assert worker.run_pass("notes") == "ok"
    provider.release()
    running.join(60)
    assert ended == ["gone"]
    assert found(knowledge, "version") == {"new": "version BBB"}


def test_one_made_anew_does_not_wait_for_the_lock_of_a_worker_that_died(make: Make) -> None:
    knowledge = make()
    key = knowledge.create_collection("notes").key
    parts = knowledge._parts
    # What a worker that was killed in mid-pass leaves behind.
    assert parts.locks.acquire("knowledge:notes", "dead", lifetime_ms=300_000) is LockState.OURS
    assert parts.store.leases.acquire(key, holder="dead", declaration=None) is not None
    knowledge.delete_collection("notes")
    knowledge.create_collection("notes")
    assert knowledge.run_pass("notes") == "ok"


def test_a_new_default_model_embeds_nothing_until_it_is_asked_to(filled: Knowledge, make: Make) -> None:
    filled.put_document("notes", "a", "apples")
    filled.run_pass("notes")
    later = make(model="fake/model-b")

    stale = later.collection("notes")
    assert (stale.status, stale.documents.ready) == (CollectionStatus.STALE, 1)
    assert [one.status for one in later.collections()] == [CollectionStatus.STALE]
    assert filled.collection("notes").status is CollectionStatus.READY, "where the default is the old one it is not"
    assert later.run_pass("notes") == "nothing due"
    later.put_document("notes", "b", "bananas")
    later.run_pass("notes")
    assert later.collection("notes").serving.model == "fake/model-a"  # type: ignore[union-attr]
    assert found(later, "bananas") == {"a": "apples", "b": "bananas"}

    plan = later.plan("notes")
    assert (plan.model, plan.reembeds, plan.passages) == ("fake/model-b", True, 2)
    later.sync("notes")
    assert later.run_pass("notes") == "ok"
    ready = later.collection("notes")
    assert (ready.status, ready.model) == (CollectionStatus.READY, "fake/model-b")
    assert ready.serving is not None
    assert (ready.serving.model, ready.serving.number) == ("fake/model-b", 2)
    assert found(later, "bananas") == {"a": "apples", "b": "bananas"}


def test_while_another_model_is_prepared_new_content_is_found(
    filled: Knowledge, make: Make, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge_worker.service.passes.SERVED_AGAIN_S", 0.0)
    for n in range(200):
        filled.put_document("notes", f"d{n}", f"text number {n}")
    filled.run_pass("notes")
    later = make(model="fake/model-b")
    later.sync("notes")
    sent = provider.texts
    provider.script(Rule(hold=True, contains="number 100", times=1), Rule(hold=True, contains="number 199", times=1))
    outcome: list[str] = []
    running = threading.Thread(target=lambda: outcome.append(later.run_pass("notes")))
    running.start()
    until_sent(provider, "text number 100", sent["text number 100"] + 1)
    later.put_document("notes", "new", "brand new")
    later.put_document("notes", "d7", "changed text")
    later.delete_document("notes", "d8")
    provider.release()
    until_sent(provider, "text number 199", sent["text number 199"] + 1)
    # Held in the middle of the re-embedding: searches answer from the old model, with the new content.
    meanwhile = later.collection("notes")
    assert meanwhile.serving is not None
    assert (meanwhile.status, meanwhile.serving.model) == (CollectionStatus.STALE, "fake/model-a")
    now = found(later, "brand new") | found(later, "changed text")
    provider.release()
    running.join(60)
    assert outcome == ["ok"]
    assert (now.get("new"), now.get("d7"), now.get("d8")) == ("brand new", "changed text", None)
    after = found(later, "brand new") | found(later, "changed text")
    assert (after.get("new"), after.get("d7"), after.get("d8")) == ("brand new", "changed text", None)
    assert later.collection("notes").documents.ready == 200


def test_the_old_model_may_be_gone_when_another_one_is_asked_for(
    filled: Knowledge, make: Make, providers: Providers
) -> None:
    filled.put_document("notes", "a", "apples")
    filled.run_pass("notes")
    filled.put_document("notes", "b", "bananas")
    providers.gone.add("fake/model-a")
    later = make(model="fake/model-b")

    assert later.run_pass("notes").startswith("failed")
    failed = later.collection("notes")
    assert (failed.failures, failed.broken) == (1, False), "a key may come back"
    later.sync("notes", force=True)
    assert later.run_pass("notes") == "ok"
    assert found(later, "bananas") == {"a": "apples", "b": "bananas"}


def test_the_old_provider_may_fail_when_another_model_is_asked_for(
    filled: Knowledge, make: Make, provider: ScriptedProvider
) -> None:
    filled.put_document("notes", "a", "apples")
    filled.run_pass("notes")
    filled.put_document("notes", "b", "bananas")
    later = make(model="fake/model-b")
    later.sync("notes")
    provider.script(Rule(status=500, times=1))
    assert later.run_pass("notes") == "ok"
    assert found(later, "bananas") == {"a": "apples", "b": "bananas"}
    assert later.get_document("notes", "b").status is DocumentStatus.READY


def test_syncing_one_that_is_not_stale_embeds_what_is_pending(filled: Knowledge) -> None:
    filled.put_document("notes", "a", "apples")
    request = filled.sync("notes")
    assert filled.run_pass("notes") == "ok"
    assert filled.wait("notes", request, timeout_ms=1000).documents.ready == 1


def test_every_process_finds_what_one_has_made(filled: Knowledge, make: Make) -> None:
    filled.put_document("notes", "a", "apples")
    filled.run_pass("notes")
    other = make(declared("docs"))
    other.node_started(["sync"])
    other.run_pass("docs")
    assert {match.collection for match in other.search("apples").matches} == {"docs", "notes"}
    assert [match.trusted for match in other.search("apples", collections="notes").matches] == [False]


def test_polling_finds_work_whose_nudge_was_lost(filled: Knowledge, make: Make) -> None:
    beat = make()
    queue = beat._parts.queue  # pyright: ignore[reportPrivateUsage]
    filled.put_document("notes", "a", "apples")
    beat.run_tick()
    assert queue.take_synced() == ["notes"]  # type: ignore[attr-defined]
    assert filled.run_pass("notes") == "ok"
