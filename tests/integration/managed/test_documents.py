"""Documents of managed collections (rules 45–47, cases 29–33 and 37)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from knowledge_worker import DocumentInput, Knowledge, KnowledgeCollection, define_knowledge_source
from knowledge_worker.domain.document import Document, DocumentStatus, PutResult, content_hash
from knowledge_worker.errors import (
    CollectionNotFoundError,
    CollectionNotManagedError,
    DocumentNotFoundError,
    InvalidInputError,
    PreconditionFailedError,
)
from knowledge_worker.queue.inline import InlineQueue
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Make, found


@contextmanager
def pass_in_flight(knowledge: Knowledge, provider: ScriptedProvider, text: str) -> Iterator[None]:
    """A pass whose embedding call for ``text`` is under way; the body runs meanwhile, then the answer comes."""
    requests = len(provider.requests)
    provider.script(Rule(hold=True, contains=text, times=1))
    outcome: list[str] = []
    thread = threading.Thread(target=lambda: outcome.append(knowledge.run_pass("notes")))
    thread.start()
    try:
        provider.wait_for_requests(requests + 1)
        yield
    finally:
        provider.release()
        thread.join(60)
    assert outcome, "the pass ended"


def test_put_is_pending_and_found_after_the_next_pass(filled: Knowledge) -> None:
    result = filled.put_document("notes", "a/b", "apples are red", title="Fruit", metadata={"n": 1})
    assert (result.status, result.accepted, result.created) == (DocumentStatus.PENDING, True, True)
    assert filled.collection("notes").documents.pending == 1

    assert filled.run_pass("notes") == "ok"

    document = filled.get_document("notes", "a/b")
    assert (document.status, document.title, document.metadata) == (DocumentStatus.READY, "Fruit", {"n": 1})
    assert (document.content, document.hash) == ("apples are red", content_hash("apples are red"))
    assert found(filled, "red apples") == {"a/b": "apples are red"}


def test_the_old_content_answers_until_the_new_one_is_in(filled: Knowledge, provider: ScriptedProvider) -> None:
    filled.put_document("notes", "a", "apples are red")
    filled.run_pass("notes")

    assert filled.put_document("notes", "a", "pears are green").accepted
    assert filled.get_document("notes", "a").status is DocumentStatus.PENDING
    assert found(filled, "apples") == {"a": "apples are red"}
    filled.run_pass("notes")
    assert found(filled, "pears") == {"a": "pears are green"}

    calls = len([one for one in provider.requests if one.texts == ("pears are green",)])
    again = filled.put_document("notes", "a", "pears are green")
    assert (again.status, again.accepted, again.created) == (DocumentStatus.READY, False, False)
    assert filled.run_pass("notes") == "nothing due"
    assert len([one for one in provider.requests if one.texts == ("pears are green",)]) == calls


def test_the_same_put_while_pending_changes_nothing(filled: Knowledge) -> None:
    first = filled.put_document("notes", "a", "apples")
    again = filled.put_document("notes", "a", "apples")
    assert (again.status, again.accepted) == (DocumentStatus.PENDING, False)
    assert (again.version, again.updated_at) == (first.version, first.updated_at)


def test_metadata_alone_is_stored_without_embedding(filled: Knowledge, provider: ScriptedProvider) -> None:
    filled.put_document("notes", "a", "apples", metadata={"v": 1})
    filled.run_pass("notes")
    calls = len(provider.requests)

    result = filled.put_document("notes", "a", "apples", metadata={"v": 2})

    assert (result.status, result.accepted) == (DocumentStatus.READY, False)
    assert filled.get_document("notes", "a").metadata == {"v": 2}
    assert filled.run_pass("notes") == "nothing due"
    assert len(provider.requests) == calls


@pytest.mark.parametrize("field", ["title", "source"])
def test_a_new_title_or_source_is_shown_by_the_next_search_after_a_pass(
    filled: Knowledge, provider: ScriptedProvider, field: str
) -> None:
    filled.put_document("notes", "a", "apples")
    filled.run_pass("notes")
    texts = provider.embedded["apples"]
    assert filled.put_document("notes", "a", "apples", **{field: "New"}).accepted  # type: ignore[arg-type]
    filled.run_pass("notes")
    assert getattr(filled.search("apples", collections="notes").matches[0], field) == "New"
    assert provider.embedded["apples"] == texts + 1, "only the query was embedded"


def test_what_was_put_first_never_replaces_what_was_put_last(filled: Knowledge, provider: ScriptedProvider) -> None:
    filled.put_document("notes", "a", "version AAA")
    with pass_in_flight(filled, provider, "AAA"):
        assert filled.put_document("notes", "a", "version BBB").accepted
    filled.run_pass("notes")
    document = filled.get_document("notes", "a")
    assert (document.status, document.content) == (DocumentStatus.READY, "version BBB")
    assert found(filled, "version") == {"a": "version BBB"}


def test_both_versions_in_hand_at_once_leave_the_newer_one(
    filled: Knowledge, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.put_document("notes", "a", "version AAA")
    documents = filled._parts.store.documents
    claim, claims = documents.claim, []

    def claim_and_put(*arguments: Any, **options: Any) -> Any:
        claims.append(claim(*arguments, **options))
        if len(claims) == 1:
            filled.put_document("notes", "a", "version BBB")
        return claims[-1]

    monkeypatch.setattr(documents, "claim", claim_and_put)
    assert filled.run_pass("notes") == "ok"

    assert [len(claimed) for claimed in claims[:2]] == [1, 1]
    assert provider.texts == {"version AAA": 1, "version BBB": 1}
    assert found(filled, "version") == {"a": "version BBB"}
    assert filled.collection("notes").failures == 0


def test_a_document_deleted_while_it_is_embedded_stays_deleted(filled: Knowledge, provider: ScriptedProvider) -> None:
    filled.put_document("notes", "a", "version AAA")
    with pass_in_flight(filled, provider, "AAA"):
        filled.delete_document("notes", "a")
    filled.run_pass("notes")
    with pytest.raises(DocumentNotFoundError):
        filled.get_document("notes", "a")
    assert found(filled, "version") == {}
    assert filled.list_documents("notes").total == 0


def test_a_document_deleted_and_put_anew_while_it_is_embedded(filled: Knowledge, provider: ScriptedProvider) -> None:
    filled.put_document("notes", "a", "version AAA")
    with pass_in_flight(filled, provider, "AAA"):
        filled.delete_document("notes", "a")
        filled.put_document("notes", "a", "version CCC")
    filled.run_pass("notes")
    assert found(filled, "version") == {"a": "version CCC"}


def test_metadata_put_while_it_is_embedded_costs_nothing(filled: Knowledge, provider: ScriptedProvider) -> None:
    filled.put_document("notes", "a", "version AAA")
    with pass_in_flight(filled, provider, "AAA"):
        assert not filled.put_document("notes", "a", "version AAA", metadata={"n": 1}).accepted
    assert filled.get_document("notes", "a").status is DocumentStatus.READY
    assert provider.embedded["version AAA"] == 1


def test_a_delete_is_gone_from_the_next_search(filled: Knowledge) -> None:
    filled.put_document("notes", "a", "apples")
    filled.put_document("notes", "b", "bananas")
    filled.run_pass("notes")
    filled.delete_document("notes", "a")
    assert found(filled, "apples") == {"b": "bananas"}
    with pytest.raises(DocumentNotFoundError):
        filled.delete_document("notes", "a")


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_document_is_failed_alone_and_tried_again_by_the_same_put(
    filled: Knowledge, provider: ScriptedProvider, status: int
) -> None:
    for n in range(10):
        filled.put_document("notes", f"d{n}", f"text number {n}")
    filled.put_document("notes", "bad", "POISON pill")
    provider.script(Rule(status=status, contains="POISON"))
    assert filled.run_pass("notes") == "ok"
    bad = filled.get_document("notes", "bad")
    assert (bad.status, bad.error is not None) == (DocumentStatus.FAILED, True)
    assert filled.collection("notes").documents.ready == 10
    assert [one.id for one in filled.list_documents("notes", status="failed").documents] == ["bad"]

    provider.clear_script()
    again = filled.put_document("notes", "bad", "POISON pill")
    assert (again.status, again.accepted) == (DocumentStatus.PENDING, True)
    filled.run_pass("notes")
    assert filled.get_document("notes", "bad").status is DocumentStatus.READY


@pytest.mark.parametrize("rule", [Rule(status=500), Rule(status=401), Rule(status=429), Rule(body="not_json")])
def test_a_broken_provider_leaves_documents_pending(filled: Knowledge, provider: ScriptedProvider, rule: Rule) -> None:
    filled.put_document("notes", "a", "apples")
    provider.script(rule)
    assert filled.run_pass("notes").startswith("failed")
    collection = filled.collection("notes")
    assert (collection.documents.pending, collection.failures) == (1, 1)
    assert collection.retry_at is not None
    assert filled.put_document("notes", "b", "bananas").accepted, "the backoff refuses no document"
    assert filled.run_pass("notes") == "nothing due"
    provider.clear_script()
    filled.sync("notes", force=True)
    assert filled.run_pass("notes") == "ok"
    assert filled.collection("notes").documents.ready == 2


def test_pages_are_exact_and_by_id(filled: Knowledge) -> None:
    documents = [DocumentInput(id=f"d{n:03}", content=f"text number {n}") for n in range(130)]
    assert all(isinstance(one, PutResult) for one in filled.put_documents("notes", documents))
    filled.run_pass("notes")
    filled.put_document("notes", "d050", "changed")

    page = filled.list_documents("notes")
    assert (len(page.documents), page.total, page.limit, page.offset) == (50, 130, 50, 0)
    assert len(filled.list_documents("notes", limit=1000).documents) == 100
    last = filled.list_documents("notes", limit=100, offset=100)
    assert [one.id for one in last.documents] == [f"d{n}" for n in range(100, 130)]
    assert last.documents[0].content is None
    pending = filled.list_documents("notes", status="pending")
    assert ([one.id for one in pending.documents], pending.total) == (["d050"], 1)
    ready = filled.list_documents("notes", status="ready", limit=3, offset=49)
    assert ([one.id for one in ready.documents], ready.total) == (["d049", "d051", "d052"], 129)
    assert filled.list_documents("notes", offset=10**15).documents == ()


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda k: k.put_document("notes", "", "x"), "id"),
        (lambda k: k.put_document("notes", "a" * 256, "x"), "id"),
        (lambda k: k.put_document("notes", "a\0", "x"), "id"),
        (lambda k: k.put_document("notes", "a", ""), "content"),
        (lambda k: k.put_document("notes", "a", "x" * 1_048_577), "content"),
        (lambda k: k.put_document("notes", "a", 7), "content"),
        (lambda k: k.put_document("notes", "a", "x", metadata={1: 2}), "metadata"),
        (lambda k: k.put_document("notes", "a", "x", metadata=[1]), "metadata"),
        (lambda k: k.put_document("No Name", "a", "x"), "name"),
        (lambda k: k.list_documents("notes", status="lost"), "status"),
        (lambda k: k.list_documents("notes", limit=0), "limit"),
        (lambda k: k.list_documents("notes", offset=-1), "offset"),
        (lambda k: k.list_documents("notes", offset=2**63), "offset"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_name(
    filled: Knowledge, call: Callable[[Knowledge], object], field: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        call(filled)
    assert refused.value.field == field
    assert filled.list_documents("notes").total == 0


def test_blank_content_is_ready_without_passages(filled: Knowledge, provider: ScriptedProvider) -> None:
    filled.put_document("notes", "a", " \n\u200b")
    filled.run_pass("notes")
    assert filled.get_document("notes", "a").status is DocumentStatus.READY
    assert not provider.requests
    assert found(filled, "anything") == {}


def test_only_managed_collections_take_documents(make: Make) -> None:
    source = define_knowledge_source(documents=lambda: iter([{"id": "a", "content": "apples"}]))
    knowledge = make(KnowledgeCollection("docs", model="fake/model-a", sources=[source]))
    knowledge.node_started(["sync"])
    knowledge.run_pass("docs")
    for write in (
        lambda: knowledge.put_document("docs", "a", "pears"),
        lambda: knowledge.put_documents("docs", []),
        lambda: knowledge.delete_document("docs", "a"),
    ):
        with pytest.raises(CollectionNotManagedError):
            write()
    assert knowledge.get_document("docs", "a").content == "apples"
    assert knowledge.list_documents("docs").total == 1
    for read in (
        lambda: knowledge.put_document("none", "a", "pears"),
        lambda: knowledge.get_document("none", "a"),
        lambda: knowledge.list_documents("none"),
        lambda: knowledge.delete_document("none", "a"),
    ):
        with pytest.raises(CollectionNotFoundError):
            read()


def test_a_write_can_be_made_to_depend_on_what_is_stored(filled: Knowledge) -> None:
    def only(version: str | None) -> Callable[[Document | None], None]:
        def check(stored: Document | None) -> None:
            if (stored.version if stored else None) != version:
                raise PreconditionFailedError("It changed.")

        return check

    first = filled.put_document("notes", "a", "one", precondition=only(None))
    with pytest.raises(PreconditionFailedError):
        filled.put_document("notes", "a", "two", precondition=only(None))
    filled.run_pass("notes")
    assert filled.get_document("notes", "a").version == first.version, "becoming ready is no change of the document"
    second = filled.put_document("notes", "a", "two", precondition=only(first.version))
    with pytest.raises(PreconditionFailedError):
        filled.delete_document("notes", "a", precondition=only(first.version))
    assert filled.get_document("notes", "a").content == "two"
    filled.delete_document("notes", "a", precondition=only(second.version))


def test_of_many_writers_with_one_condition_one_wins(filled: Knowledge) -> None:
    def is_new(stored: Document | None) -> None:
        if stored is not None:
            raise PreconditionFailedError("It is there.")

    outcomes: list[str] = []

    def write(n: int) -> None:
        try:
            filled.put_document("notes", "a", f"by writer {n}", precondition=is_new)
            outcomes.append(f"by writer {n}")
        except PreconditionFailedError:
            pass

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [filled.get_document("notes", "a").content]


def test_bulk_writes_answer_for_each_document(filled: Knowledge) -> None:
    filled.put_document("notes", "same", "the same")
    items: list[object] = [
        {"id": "new", "content": "brand new"},
        {"id": "", "content": "no id"},
        {"id": "same", "content": "the same"},
        {"id": "twice", "content": "first"},
        {"id": "twice", "content": "second"},
        "no document",
        {"id": "empty", "content": ""},
    ]
    results = list(filled.put_documents("notes", items))  # type: ignore[arg-type]
    kinds = [one.accepted if isinstance(one, PutResult) else type(one).__name__ for one in results]
    refused = "InvalidInputError"
    assert kinds == [True, refused, False, True, True, refused, refused]
    assert filled.get_document("notes", "twice").content == "second"
    assert filled.list_documents("notes").total == 3


def test_a_bulk_write_into_a_collection_deleted_meanwhile_says_so(filled: Knowledge) -> None:
    def documents() -> Iterator[DocumentInput]:
        for n in range(450):
            if n == 300:
                filled.delete_collection("notes")
            yield DocumentInput(id=f"d{n}", content="text")

    results = list(filled.put_documents("notes", documents()))
    assert len(results) == 450
    assert {type(one) for one in results[:200]} == {PutResult}
    assert {type(one) for one in results[200:]} == {CollectionNotFoundError}


def test_every_put_that_leaves_work_wakes_a_worker(make: Make) -> None:
    knowledge = make()
    queue = knowledge._parts.queue  # pyright: ignore[reportPrivateUsage]
    assert isinstance(queue, InlineQueue)
    knowledge.create_collection("notes")
    assert queue.take_synced() == ["notes"]
    knowledge.put_document("notes", "a", "apples")
    assert queue.take_synced() == ["notes"]
    list(knowledge.put_documents("notes", [{"id": "b", "content": "bananas"}]))
    assert queue.take_synced() == ["notes"]
    queue.away = True
    assert knowledge.put_document("notes", "c", "cherries").accepted, "without Redis a put is accepted as well"
    knowledge.run_pass("notes")
    queue.away = False
    queue.take_synced()
    knowledge.put_document("notes", "c", "cherries")
    assert queue.take_synced() == []
