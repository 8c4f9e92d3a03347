"""Several rankings made one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from knowledge_worker.domain.limits import Limits
from knowledge_worker.domain.ranking import WEIGHT_DEFAULT, Fusion, FusionMethod
from knowledge_worker.search.fusion import WEIGHTS, fusion_of, reciprocal_rank_fusion
from knowledge_worker.store.protocol import Hit

from .conftest import PASSAGE


@st.composite
def rankings(draw: st.DrawFn) -> list[list[Hit]]:
    """Rankings of different collections, each best first and those beyond enough of their document last."""
    made: list[list[Hit]] = []
    for number in range(draw(st.integers(0, 4))):
        scores = sorted(draw(st.lists(st.floats(-1, 1), max_size=15)), reverse=True)
        behind = draw(st.integers(0, len(scores)))
        made.append(
            [
                replace(PASSAGE, collection=f"c{number}", document=f"d{place}", score=score, beyond=place >= behind)
                for place, score in enumerate(scores)
            ]
        )
    return made


@given(rankings())
def test_every_ranking_keeps_its_order_and_nothing_is_lost(given_: list[list[Hit]]) -> None:
    fused = reciprocal_rank_fusion(given_)
    assert len(fused) == sum(map(len, given_))
    for ranking in given_:
        assert [hit for hit in fused if ranking and hit.collection == ranking[0].collection] == ranking
    assert [hit.beyond for hit in fused] == sorted(hit.beyond for hit in fused)


@given(rankings())
def test_a_better_place_is_never_behind_a_worse_one_of_another_ranking(given_: list[list[Hit]]) -> None:
    place = {(hit.collection, hit.document): rank for ranking in given_ for rank, hit in enumerate(ranking)}
    for before, after in pairwise(reciprocal_rank_fusion(given_)):
        if before.beyond == after.beyond:
            assert place[before.collection, before.document] <= place[after.collection, after.document]


@given(rankings(), st.randoms())
def test_the_order_of_the_rankings_does_not_matter(given_: list[list[Hit]], random: object) -> None:
    shuffled = list(given_)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert reciprocal_rank_fusion(shuffled) == reciprocal_rank_fusion(given_)


def test_a_model_that_was_measured_has_a_weight_of_its_own() -> None:
    assert fusion_of("openai/of-tomorrow", Limits()) == Fusion(method=FusionMethod.WEIGHTED, weight=WEIGHT_DEFAULT)
    assert WEIGHTS
    for model, weight in WEIGHTS.items():
        assert fusion_of(model, Limits()).weight == weight
        assert 0 <= weight <= 1


def test_the_settings_win_over_what_was_measured() -> None:
    limits = Limits(hybrid_fusion="rrf", hybrid_weight=0.0)
    for model in ("openai/of-tomorrow", *WEIGHTS):
        assert fusion_of(model, limits) == Fusion(method=FusionMethod.RRF, weight=0.0)
