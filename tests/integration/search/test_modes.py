"""By meaning, by words and by both: scores, their kind and their explanation, computed again beside the database."""

from __future__ import annotations

import pytest

from knowledge_worker import Match
from knowledge_worker.domain.ranking import CANDIDATES, WEIGHT_DEFAULT

from .conftest import Make, bm25, cosines, declared, indexed, made_texts, names, ranked, scaled

QUERY = "green hill by the sea, number7 and cherry"
STORAGES = pytest.mark.parametrize("threshold", [10_000, 50], ids=["shared table", "own table"])


def best(scores: dict[str, float]) -> list[float]:
    """The twenty best scores."""
    return sorted(scores.values(), reverse=True)[:20]


@STORAGES
def test_by_meaning_the_score_is_the_cosine(make: Make, threshold: int) -> None:
    texts = made_texts(200)
    knowledge = indexed(make, declared("docs", texts), own_table_chunks=threshold)
    result = knowledge.search(QUERY, mode="semantic", top_k=20, explain=True)
    right = cosines(QUERY, texts)
    assert result.mode == "semantic"
    assert [match.score for match in result.matches] == pytest.approx(
        sorted(right.values(), reverse=True)[:20], abs=1e-3
    )
    for place, match in enumerate(result.matches, start=1):
        assert (match.score_kind, match.score) == ("cosine", pytest.approx(right[match.document], abs=1e-3))
        assert match.explanation is not None
        assert match.explanation.semantic_rank == place
        assert match.explanation.cosine == match.score
        assert (match.explanation.lexical_rank, match.explanation.bm25) == (None, None)
        assert match.explanation.model == "fake/model-a"


@STORAGES
def test_by_words_the_score_is_bm25(make: Make, threshold: int) -> None:
    texts = made_texts(200)
    knowledge = indexed(make, declared("docs", texts), own_table_chunks=threshold)
    result = knowledge.search(QUERY, mode="lexical", top_k=20, explain=True)
    right = bm25(QUERY, texts)
    assert names(result) == ranked(right)[:20]
    for place, match in enumerate(result.matches, start=1):
        assert (match.score_kind, match.score) == ("bm25", pytest.approx(right[match.document], rel=1e-4))
        assert match.explanation is not None
        assert (match.explanation.lexical_rank, match.explanation.bm25) == (place, match.score)
        assert (match.explanation.semantic_rank, match.explanation.cosine) == (None, None)


def test_a_word_said_many_times_counts_as_often_as_it_is_said(make: Make) -> None:
    texts = {f"d{times:03}": "w " * times + "o " * (200 - times) for times in range(1, 150)}
    knowledge = indexed(make, declared("docs", texts))
    result = knowledge.search("w", mode="lexical", top_k=20)
    right = bm25("w", texts)
    assert names(result) == ranked(right)[:20]
    assert [match.score for match in result.matches] == pytest.approx([right[one] for one in names(result)], rel=1e-4)


@STORAGES
@pytest.mark.parametrize("weight", [None, 0.0, 0.3, 1.0])
def test_by_both_the_score_is_the_weighted_sum_of_scaled_scores(
    make: Make, threshold: int, weight: float | None
) -> None:
    texts = made_texts(90)  # all of them are candidates of both legs
    knowledge = indexed(make, declared("docs", texts), own_table_chunks=threshold, hybrid_weight=weight)
    result = knowledge.search(QUERY, top_k=20, explain=True)
    near, worded = cosines(QUERY, texts), bm25(QUERY, texts)
    near_scaled, worded_scaled = scaled(near, list(texts)), scaled(worded, list(worded))
    share = WEIGHT_DEFAULT if weight is None else weight
    right = {one: share * near_scaled[one] + (1 - share) * worded_scaled.get(one, 0.0) for one in texts}
    assert result.mode == "hybrid"
    assert [match.score for match in result.matches] == pytest.approx(
        sorted(right.values(), reverse=True)[:20], abs=5e-3
    )
    for match in result.matches:
        assert (match.score_kind, match.score) == ("fused", pytest.approx(right[match.document], abs=5e-3))
        _check_explanation(match, near, worded)


def test_by_both_with_ranks_the_score_is_of_the_ranks(make: Make) -> None:
    texts = made_texts(90)
    knowledge = indexed(make, declared("docs", texts), hybrid_fusion="rrf")
    result = knowledge.search(QUERY, top_k=20, explain=True)
    near, worded = cosines(QUERY, texts), bm25(QUERY, texts)
    for match in result.matches:
        _check_explanation(match, near, worded)
        assert match.explanation is not None
        ranks = [match.explanation.semantic_rank, match.explanation.lexical_rank]
        assert match.score == pytest.approx(sum(1 / (60 + rank) for rank in ranks if rank is not None) * 61 / 2)
    assert [match.score for match in result.matches] == sorted((match.score for match in result.matches), reverse=True)


def _check_explanation(match: Match, near: dict[str, float], worded: dict[str, float]) -> None:
    said = match.explanation
    assert said is not None
    assert said.cosine == pytest.approx(near[match.document], abs=1e-3)
    better = sum(score > near[match.document] + 1e-3 for score in near.values())
    as_good = sum(score > near[match.document] - 1e-3 for score in near.values())
    assert said.semantic_rank is not None
    assert better < said.semantic_rank <= as_good
    if match.document in worded:
        assert said.bm25 == pytest.approx(worded[match.document], rel=1e-4)
        assert said.lexical_rank == ranked(worded).index(match.document) + 1
    else:
        assert (said.bm25, said.lexical_rank) == (None, None)


def test_without_explain_nothing_is_explained(make: Make) -> None:
    knowledge = indexed(make, declared("docs", made_texts(5)))
    assert [match.explanation for match in knowledge.search(QUERY).matches] == [None] * 5


@STORAGES
def test_common_words_alone_find_as_many_as_are_asked_for(make: Make, threshold: int) -> None:
    texts = {f"d{n:04}": f"the same words everywhere {n}" for n in range(CANDIDATES + 1100)}
    knowledge = indexed(make, declared("docs", texts), own_table_chunks=threshold)
    assert len(knowledge.search("everywhere the same words", mode="lexical", top_k=20).matches) == 20
    one = knowledge.search("the same words 77", mode="lexical", top_k=20)
    assert (one.matches[0].document, len(one.matches)) == ("d0077", 20)


def test_a_least_score_makes_a_search_by_meaning(make: Make) -> None:
    texts = made_texts(60)
    knowledge = indexed(make, declared("docs", texts))
    right = cosines(QUERY, texts)
    result = knowledge.search(QUERY, min_score=0.3, top_k=20)
    assert result.mode == "semantic"
    assert len(result.matches) == min(20, sum(score >= 0.3 for score in right.values())) > 0
    both = knowledge.search(QUERY, min_score=0.3, top_k=20, mode="hybrid", explain=True)
    assert both.mode == "hybrid"
    assert len(both.matches) == len(result.matches)
    assert all(match.explanation and match.explanation.cosine >= 0.3 for match in both.matches)
    assert knowledge.search(QUERY, min_score=1.0).matches == ()
