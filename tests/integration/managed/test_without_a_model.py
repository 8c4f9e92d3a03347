"""Collections that are searched by words only, and what becomes of them when they get a model."""

from __future__ import annotations

import pytest

from knowledge_worker import KnowledgeCollection, define_knowledge_source
from knowledge_worker.domain.collection import CollectionStatus
from knowledge_worker.errors import NotSearchableError
from knowledge_worker.testing.provider import ScriptedProvider

from .conftest import Make, found

TEXTS = {f"d{n}": f"text number {n} about {'apples' if n % 2 else 'pears'}" for n in range(30)}


def declared(model: str | None) -> KnowledgeCollection:
    documents = [{"id": identifier, "content": text} for identifier, text in TEXTS.items()]
    return KnowledgeCollection(
        "docs", model=model, sources=[define_knowledge_source(documents=lambda: iter(documents))]
    )


@pytest.mark.parametrize("threshold", [10_000, 10])
def test_a_declared_one_is_indexed_and_found_without_any_call(
    make: Make, provider: ScriptedProvider, threshold: int
) -> None:
    knowledge = make(declared(None), model=None, own_table_chunks=threshold)
    assert knowledge.check() == []
    knowledge.node_started(["sync"])
    assert knowledge.plan("docs").passages == 0
    assert knowledge.run_pass("docs") == "ok"

    ready = knowledge.collection("docs")
    assert (ready.status, ready.model, ready.documents.ready) == (CollectionStatus.READY, "none", 30)
    result = knowledge.search("apples number 7", collections="docs", explain=True)
    assert result.matches[0].document == "d7"
    assert {match.score_kind for match in result.matches} == {"bm25"}
    assert result.matches[0].explanation is not None
    assert result.matches[0].explanation.model is None
    with pytest.raises(NotSearchableError, match="words only"):
        knowledge.search("apples", collections="docs", mode="semantic")
    assert not provider.requests


def test_a_model_given_later_is_an_ordinary_re_embedding(make: Make, provider: ScriptedProvider) -> None:
    words = make(declared(None))
    words.node_started(["sync"])
    words.run_pass("docs")
    words.node_stopped()
    later = make(declared("fake/model-a"))
    later.node_started(["sync"])
    assert found(later, "apples number 7", "docs")["d7"] == TEXTS["d7"], "searched by words until then"
    assert later.run_pass("docs") == "ok"
    assert sum(provider.embedded[text] for text in TEXTS.values()) == 30
    matches = later.search("text number 7 about apples", collections="docs", mode="semantic").matches
    assert matches[0].document == "d7"
    assert later.run_pass("docs") == "nothing due"


def test_a_managed_one_may_do_without_when_the_default_model_is_none(make: Make, provider: ScriptedProvider) -> None:
    knowledge = make(model="none")
    assert knowledge.create_collection("notes").model == "none"
    knowledge.put_document("notes", "a", "apples are red")
    knowledge.run_pass("notes")
    assert found(knowledge, "red apples") == {"a": "apples are red"}
    knowledge.put_document("notes", "a", "pears are green")
    knowledge.run_pass("notes")
    assert found(knowledge, "green") == {"a": "pears are green"}
    later = make(model="fake/model-a")
    assert later.collection("notes").status is CollectionStatus.STALE
    later.sync("notes")
    later.run_pass("notes")
    assert later.search("pears", collections="notes").matches[0].score_kind == "fused"


def test_words_and_meaning_are_searched_together(make: Make) -> None:
    knowledge = make(declared(None))
    knowledge.node_started(["sync"])
    knowledge.run_pass("docs")
    knowledge.create_collection("notes")
    knowledge.put_document("notes", "a", "apples are red")
    knowledge.run_pass("notes")
    result = knowledge.search("apples")
    assert {match.collection for match in result.matches} == {"docs", "notes"}
    assert {match.score_kind for match in result.matches} == {"bm25", "fused"}
    by_meaning = knowledge.search("apples", mode="semantic")
    assert {match.collection for match in by_meaning.matches} == {"notes"}
    assert [one.collection for one in by_meaning.unavailable] == ["docs"]


def test_another_language_keeps_the_vectors(make: Make, provider: ScriptedProvider) -> None:
    def in_language(language: str) -> KnowledgeCollection:
        documents = [{"id": "a", "content": "The foxes were running"}]
        return KnowledgeCollection(
            "docs", model="fake/model-a", language=language,
            sources=[define_knowledge_source(documents=lambda: iter(documents))],
        )  # fmt: skip

    simple = make(in_language("simple"))
    simple.node_started(["sync"])
    simple.run_pass("docs")
    assert simple.search("fox run", collections="docs", mode="lexical").matches == ()
    simple.node_stopped()
    english = make(in_language("english"))
    english.node_started(["sync"])
    assert english.plan("docs").passages == 0
    assert english.run_pass("docs") == "ok"
    assert provider.embedded["The foxes were running"] == 1
    assert len(english.search("fox run", collections="docs", mode="lexical").matches) == 1
    assert len(english.search("fox run", collections="docs", mode="semantic").matches) == 1
