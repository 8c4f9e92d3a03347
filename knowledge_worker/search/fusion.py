"""One ranking out of several whose scores cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from knowledge_worker.domain.match import Match

RRF_K: Final = 60


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Match]]) -> list[Match]:
    """Merge rankings by rank alone: ``Σ 1/(60 + rank)``, Cormack, Clarke and Büttcher, SIGIR 2009.

    Args:
        rankings: each best first; a passage stands in at most one of them (they are of different collections).

    Returns:
        All matches, best first, ties by their own score and then by identity; scores stay as they were.
    """
    placed = [(1 / (RRF_K + rank), match) for ranking in rankings for rank, match in enumerate(ranking, start=1)]
    placed.sort(key=lambda one: (-one[0], -one[1].score, one[1].collection, one[1].document, one[1].index))
    return [match for _, match in placed]
