"""What a search answers (rules 59 to 61)."""

from __future__ import annotations

import pytest

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
