"""What a search answers (rules 59 to 61)."""

from __future__ import annotations

import pytest

from knowledge_worker.errors import EmbeddingUnavailableError
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Documents, Make, run, started, texts


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


def test_a_query_vector_of_other_dimensions_is_said_and_never_compared(make: Make, provider: ScriptedProvider) -> None:
    knowledge = started(make(Documents(a="apples").source()))
    run(knowledge)
    provider.script(Rule(body="wrong_dimensions"))
    with pytest.raises(EmbeddingUnavailableError, match="dimensions"):
        knowledge.search("apples", mode="semantic")
    by_words = knowledge.search("apples")
    assert "dimensions" in (by_words.degraded or "")
    assert [match.score_kind for match in by_words.matches] == ["bm25"]


def test_a_title_of_any_length_makes_a_match_of_bounded_length(make: Make) -> None:
    docs = Documents()
    docs.contents["long"] = {"id": "long", "content": "apples", "title": "t" * 2_000_000, "source": "s" * 2_000_000}
    knowledge = started(make(docs.source()))
    run(knowledge)
    match = knowledge.search("apples").matches[0]
    assert (len(match.title or ""), len(match.source or "")) == (1000, 1000)
