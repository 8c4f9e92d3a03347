"""Several collections, several models, and collections that cannot all do the same."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from knowledge_worker import Knowledge, NotSearchableError
from knowledge_worker.errors import (
    CollectionNotAllowedError,
    CollectionNotFoundError,
    CollectionNotReadyError,
    EmbeddingUnavailableError,
)
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Make, bm25, cosines, declared, indexed, made_texts, names

QUERY = "red apple by the river"


def statements(knowledge: Knowledge) -> list[str]:
    """The search statements that follow."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if "fused as" in statement:
            seen.append(statement)

    event.listen(knowledge._parts.store.database.engine, "before_cursor_execute", note)  # type: ignore[attr-defined]
    return seen


@pytest.mark.parametrize("threshold", [10_000, 50], ids=["shared table", "own table"])
def test_collections_of_one_model_are_ranked_together_by_one_statement(make: Make, threshold: int) -> None:
    first = made_texts(150, seed=1)
    second = {f"e{name}": text for name, text in made_texts(150, seed=2).items()}
    knowledge = indexed(make, declared("first", first), declared("second", second), own_table_chunks=threshold)
    seen = statements(knowledge)
    result = knowledge.search(QUERY, mode="semantic", top_k=20, explain=True)
    right = cosines(QUERY, first | second)
    best = sorted(right.values(), reverse=True)[:20]
    assert [match.score for match in result.matches] == pytest.approx(best, abs=1e-3)
    assert {match.collection for match in result.matches} == {"first", "second"}
    assert [match.explanation.semantic_rank for match in result.matches if match.explanation] == list(range(1, 21))
    assert len(seen) == 1, "no index was given up"


def test_collections_of_two_models_are_fused_by_rank(make: Make) -> None:
    first, second = made_texts(40, seed=1), made_texts(40, seed=2)
    knowledge = indexed(make, declared("first", first), declared("second", second, model="fake/model-b"))
    alone = {
        name: names(knowledge.search(QUERY, collections=name, mode="semantic", top_k=5)) for name in ("first", "second")
    }
    both = knowledge.search(QUERY, mode="semantic", top_k=10, explain=True)
    for name, found in alone.items():
        assert [match.document for match in both.matches if match.collection == name] == found
    places = [match.explanation.semantic_rank for match in both.matches if match.explanation]
    assert places == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    least = sorted(cosines(QUERY, first | second).values())[-8]
    enough = knowledge.search(QUERY, min_score=least, top_k=20)
    assert min(match.score for match in enough.matches) >= least


def test_a_collection_without_a_model_is_searched_by_words_beside_others(
    make: Make, provider: ScriptedProvider
) -> None:
    words, meaning = made_texts(40, seed=1), made_texts(40, seed=2)
    knowledge = indexed(make, declared("words", words, model=None), declared("meaning", meaning))
    assert not any(text in request.texts for text in words.values() for request in provider.requests)
    result = knowledge.search(QUERY, top_k=20, explain=True)
    kinds = {(match.collection, match.score_kind) for match in result.matches}
    assert kinds == {("words", "bm25"), ("meaning", "fused")}
    right = bm25(QUERY, words)
    for match in result.matches:
        if match.collection == "words":
            assert match.score == pytest.approx(right[match.document], rel=1e-4)
            assert match.explanation is not None
            assert (match.explanation.model, match.explanation.cosine) == (None, None)
    semantic = knowledge.search(QUERY, mode="semantic")
    assert [one.collection for one in semantic.unavailable] == ["words"]
    assert "words only" in semantic.unavailable[0].reason


def test_what_was_indexed_before_there_were_words_is_found_by_meaning(make: Make) -> None:
    knowledge = indexed(make, declared("old", {"a": "apples"}), declared("new", {"b": "apples and pears"}))
    _take_words_away(knowledge, "old")
    assert {match.score_kind for match in knowledge.search("apples", collections="old").matches} == {"cosine"}
    with pytest.raises(NotSearchableError, match="before its next pass"):
        knowledge.search("apples", collections="old", mode="lexical")
    both = knowledge.search("apples", mode="lexical")
    assert (names(both), [one.collection for one in both.unavailable]) == (["b"], ["old"])
    assert set(names(knowledge.search("apples"))) == {"a", "b"}


def test_going_by_words_names_the_collections_that_have_none(make: Make, provider: ScriptedProvider) -> None:
    knowledge = indexed(make, declared("old", {"a": "apples"}), declared("new", {"b": "apples and pears"}))
    _take_words_away(knowledge, "old")
    provider.script(Rule(status=500))
    result = knowledge.search("apples")
    assert (names(result), [one.collection for one in result.unavailable]) == (["b"], ["old"])
    with pytest.raises(EmbeddingUnavailableError):
        knowledge.search("apples", collections="old")


def _take_words_away(knowledge: Knowledge, name: str) -> None:
    """As migration 0004 leaves a generation from before it."""
    with knowledge._parts.store.database.transaction() as tx:  # type: ignore[attr-defined]
        serving = tx.value("select serving from collections where name = :name", name=name)
        tx.run("update generations set language = '', counted_chunks = 0, mean_words = 0 where id = :id", id=serving)
        tx.run("update chunks set words = null, word_count = 0 where generation_id = :id", id=serving)


def test_collections_that_cannot_be_searched_are_named_and_the_others_answer(make: Make) -> None:
    knowledge = make(declared("ready", {"a": "apples"}), declared("pending", {"b": "pears"}))
    knowledge.node_started(["sync"])
    assert knowledge.run_pass("ready") == "ok"
    for asked in (None, ["pending", "ready"]):
        result = knowledge.search("apples", collections=asked)
        assert (names(result), [one.collection for one in result.unavailable]) == (["a"], ["pending"])
    with pytest.raises(CollectionNotReadyError):
        knowledge.search("apples", collections="pending")
    with pytest.raises(CollectionNotFoundError):
        knowledge.search("apples", collections="unknown")


def test_an_orphaned_collection_is_refused_without_embedding(make: Make, provider: ScriptedProvider) -> None:
    before = indexed(make, declared("docs", {"a": "apples"}))
    before.node_stopped()
    after = indexed(make, declared("other", {"b": "pears"}))
    with pytest.raises(CollectionNotAllowedError):
        after.search("sweet fruit", collections="docs")
    assert not any("sweet fruit" in request.texts for request in provider.requests)
    result = after.search("sweet fruit")
    assert ({match.collection for match in result.matches}, result.unavailable) == ({"other"}, ())
    assert names(before.search("sweet fruit", collections="docs")) == ["a"], "its own declaration counts"


def test_many_collections_in_one_search(make: Make) -> None:
    knowledge = make()
    for number in range(60):
        name = f"notes-{number}"
        knowledge.create_collection(name)
        knowledge.put_document(name, "a", f"apples of number {number}")
        assert knowledge.run_pass(name) == "ok"
    for mode in ("semantic", "lexical", "hybrid"):
        result = knowledge.search("apples of number 41", mode=mode)
        assert result.matches[0].collection == "notes-41"
        assert result.unavailable == ()
