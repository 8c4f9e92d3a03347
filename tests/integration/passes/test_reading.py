"""What a pass reads, stores and deletes (specification rules 10 to 19, 29, 42)."""

from __future__ import annotations

import pytest

from knowledge_worker import KnowledgeSource, define_knowledge_source
from knowledge_worker.domain.collection import CollectionStatus
from knowledge_worker.domain.passes import PassOutcome
from knowledge_worker.errors import CollectionNotReadyError
from knowledge_worker.testing.provider import ScriptedProvider

from .conftest import Documents, Make, run, started, texts


def test_a_first_pass_makes_a_collection_searchable(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(a="apples are red", b="bananas are yellow")
    knowledge = started(make(docs.source()))

    with pytest.raises(CollectionNotReadyError, match=r'Knowledge collection "docs" is not ready\.'):
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


@pytest.mark.parametrize("read_batch", [1, 2, 500])
def test_the_first_of_several_documents_with_one_id_wins_and_the_others_are_reported(
    make: Make, read_batch: int
) -> None:
    def items(*pairs: tuple[str, str]) -> KnowledgeSource:
        return define_knowledge_source(
            kind="listed", documents=lambda: [{"id": identifier, "content": content} for identifier, content in pairs]
        )

    one = items(("a", "a one"), ("b", "b one"), ("a", "a two"), ("a", "a three"))
    two = items(("b", "b of another source"), ("c", "c one"), ("b", "b again"), ("c", "c two"))
    knowledge = started(make(one, two, settings={"read_batch": read_batch}))
    plan = knowledge.plan("docs")
    assert (plan.read, plan.added, plan.skipped) == (8, 3, 4)
    for expected in ((3, 0), (0, 3)):
        knowledge.sync("docs")
        assert run(knowledge) == "ok"
        record = knowledge.passes("docs")[0]
        assert (record.counts.added, record.counts.unchanged) == expected
        assert (record.counts.read, record.counts.changed, record.counts.deleted, record.counts.skipped) == (8, 0, 0, 4)
        assert sorted(report.split(":")[0] for report in record.reports) == ["a", "a", "b", "c"]
        assert sorted(texts(knowledge.search("one two"))) == ["a one", "b one", "c one"]
    plan = knowledge.plan("docs")
    assert (plan.unchanged, plan.changed, plan.skipped, sorted(plan.reports)) == (3, 0, 4, sorted(record.reports))


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


def test_a_source_declared_in_other_words_keeps_its_documents(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(a="apples", b="bananas")
    run(started(make(docs.source(trusted=True))))
    knowledge = make(docs.source(trusted=False))
    assert knowledge.plan("docs").unchanged == 2
    assert len(provider.requests) == 1
