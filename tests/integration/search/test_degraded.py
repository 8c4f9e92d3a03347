"""When a provider does not answer: by words where that is possible, and it is said."""

from __future__ import annotations

import pytest

from knowledge_worker.errors import EmbeddingError, EmbeddingUnavailableError
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Make, bm25, declared, indexed, made_texts, names, ranked

QUERY = "green hill by the sea"
RULES = {
    "500": Rule(status=500),
    "429": Rule(status=429, headers={"Retry-After": "7"}),
    "401": Rule(status=401),
    "refused": Rule(status=400),
    "nothing": Rule(hold=True),
    "no vector": Rule(body="zeros"),
    "other dimensions": Rule(body="wrong_dimensions"),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_search_by_both_goes_by_words_and_says_so(make: Make, provider: ScriptedProvider, rule: Rule) -> None:
    texts = made_texts(60)
    knowledge = indexed(make, declared("docs", texts), query_timeout_ms=300)
    provider.script(rule)
    result = knowledge.search(QUERY, explain=True, top_k=20)
    assert result.degraded
    assert (result.mode, {match.score_kind for match in result.matches}) == ("hybrid", {"bm25"})
    assert names(result) == ranked(bm25(QUERY, texts))[:20]
    assert {match.explanation.semantic_rank for match in result.matches if match.explanation} == {None}
    for options in ({"mode": "semantic"}, {"min_score": 0.1}, {"mode": "hybrid", "min_score": 0.1}):
        with pytest.raises(EmbeddingError):
            knowledge.search(QUERY, **options)  # type: ignore[arg-type]
    assert knowledge.search(QUERY, mode="lexical").degraded is None


def test_once_it_answers_again_so_does_the_search(make: Make, provider: ScriptedProvider) -> None:
    knowledge = indexed(make, declared("docs", made_texts(20)))
    provider.script(Rule(status=500, times=1))
    assert knowledge.search(QUERY).degraded
    again = knowledge.search(QUERY)
    assert (again.degraded, {match.score_kind for match in again.matches}) == (None, {"fused"})


def test_how_long_to_wait_is_passed_on(make: Make, provider: ScriptedProvider) -> None:
    knowledge = indexed(make, declared("docs", {"a": "apples"}))
    provider.script(RULES["429"])
    with pytest.raises(EmbeddingUnavailableError) as raised:
        knowledge.search(QUERY, mode="semantic")
    assert raised.value.retry_after_ms == 7000


def test_what_one_model_cannot_answer_another_can(make: Make, provider: ScriptedProvider) -> None:
    knowledge = indexed(
        make, declared("first", {"a": "sea and hill"}), declared("second", {"b": "sea and hill"}, model="fake/model-b")
    )
    provider.script(Rule(status=500, times=1))
    result = knowledge.search("sea")
    assert result.degraded
    kinds = {(match.collection, match.score_kind) for match in result.matches}
    assert kinds == {("first", "bm25"), ("second", "fused")}
