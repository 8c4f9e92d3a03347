"""The metrics against trec_eval and by hand; intervals and tests against what is known of them."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import pytrec_eval

from knowledge_worker.evaluation.metrics import score
from knowledge_worker.evaluation.statistics import estimate, paired_difference


def test_graded_documents_by_hand() -> None:
    found = score(["b", "x", "a"], {"a": 3, "b": 1, "c": 2})
    gained = 1 / math.log2(2) + 3 / math.log2(4)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert found == (pytest.approx(gained / ideal), pytest.approx(2 / 3), 1.0)


def test_nothing_found_is_worth_nothing() -> None:
    assert score([], {"a": 1}) == score(["x", "y"], {"a": 1}) == (0, 0, 0)


def test_only_the_first_ten_count() -> None:
    ten = [f"x{number}" for number in range(10)]
    assert score([*ten, "a"], {"a": 1}) == (0, 0, 0)
    assert score([*ten[:9], "a"], {"a": 1}) == (pytest.approx(1 / math.log2(11)), 1, pytest.approx(0.1))


def test_as_trec_eval_computes_it() -> None:
    rng = random.Random(3)
    documents = [f"d{number}" for number in range(40)]
    relevant = {
        f"q{number}": {one: rng.randrange(1, 4) for one in rng.sample(documents, rng.randrange(1, 25))}
        for number in range(200)
    }
    rankings = {question: rng.sample(documents, rng.randrange(1, 11)) for question in relevant}
    run = {
        question: {document: 1 / rank for rank, document in enumerate(ranking, start=1)}
        for question, ranking in rankings.items()
    }
    expected = pytrec_eval.RelevanceEvaluator(relevant, {"ndcg_cut.10", "recall.10", "recip_rank"}).evaluate(run)
    for question, ranking in rankings.items():
        theirs = expected[question]
        ours = score(ranking, relevant[question])
        assert ours == pytest.approx((theirs["ndcg_cut_10"], theirs["recall_10"], theirs["recip_rank"]))


def test_an_interval_is_as_wide_as_the_standard_error_says() -> None:
    values = np.random.default_rng(5).normal(0.6, 0.3, size=400)
    found = estimate(values)
    error = 1.96 * values.std() / math.sqrt(len(values))
    assert found.mean == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((found.mean - error, found.mean + error), abs=error / 20)


def test_the_same_seed_gives_the_same_interval_and_another_one_a_close_one() -> None:
    values = np.random.default_rng(5).random(100)
    assert estimate(values, seed=1) == estimate(values, seed=1)
    assert estimate(values, seed=1) != estimate(values, seed=2)
    assert estimate(values, seed=1).low == pytest.approx(estimate(values, seed=2).low, abs=0.005)


def test_all_equal_has_no_width() -> None:
    found = estimate(np.full(7, 0.25))
    assert (found.mean, found.low, found.high) == (0.25, 0.25, 0.25)


def test_a_small_gain_on_every_question_is_no_chance_and_the_same_gain_on_a_few_is() -> None:
    before = np.random.default_rng(5).random(200)
    everywhere = paired_difference(before + 0.01, before)
    assert (everywhere.mean, everywhere.p) == (pytest.approx(0.01), pytest.approx(1 / 10_001))
    assert everywhere.low == pytest.approx(0.01)
    once = before.copy()
    once[7] += 2.0
    assert paired_difference(once, before).mean == pytest.approx(0.01)
    assert paired_difference(once, before).p == 1.0


def test_the_chance_of_ten_wins_out_of_ten_is_the_one_of_coins() -> None:
    ten = paired_difference(np.full(10, 0.5), np.zeros(10))
    assert ten.p == pytest.approx(2 / 2**10, rel=0.5)


def test_nothing_gained_is_all_chance() -> None:
    found = paired_difference(np.full(5, 0.5), np.full(5, 0.5))
    assert (found.mean, found.p) == (0, 1)
