"""How good a ranking of documents is, as trec_eval computes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

DEPTH: Final = 10
"""Documents of a ranking that count."""


class Scores(NamedTuple):
    """What one question's ranking is worth; each 0 to 1.

    Attributes:
        ndcg: normalised discounted cumulative gain: ``Σ grade / log2(rank + 1)`` over that of the ideal ranking
            (Järvelin and Kekäläinen, TOIS 2002; linear gain, as in trec_eval and BEIR).
        recall: share of the relevant documents that were found.
        mrr: one over the rank of the first relevant document; 0 when none was found.
    """

    ndcg: float
    recall: float
    mrr: float


def score(ranking: Sequence[str], relevant: Mapping[str, int]) -> Scores:
    """Score the first :data:`DEPTH` documents of a ranking.

    Args:
        ranking: document ids, best first, each once.
        relevant: document id → grade, at least 1; not empty. Documents that are not in it are not relevant.
    """
    grades = [relevant.get(document, 0) for document in ranking[:DEPTH]]
    ideal = sorted(relevant.values(), reverse=True)[:DEPTH]
    return Scores(
        ndcg=_gain(grades) / _gain(ideal),
        recall=sum(grade > 0 for grade in grades) / len(relevant),
        mrr=next((1 / rank for rank, grade in enumerate(grades, start=1) if grade > 0), 0.0),
    )


def _gain(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))
