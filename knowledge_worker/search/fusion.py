"""One ranking out of several whose scores cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from knowledge_worker.domain.limits import Limits
from knowledge_worker.domain.ranking import RRF_K, WEIGHT_DEFAULT, Fusion, FusionMethod
from knowledge_worker.store.protocol import Hit

WEIGHTS: Final = {"local/all-minilm-l6-v2": 0.3, "local/wordllama": 0.2}
"""One knows English only, the other words only, which BM25 knows better (docs/decisions/0006-fusion.md)."""


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Merge rankings by rank alone: ``Σ 1/(60 + rank)``, Cormack, Clarke and Büttcher, SIGIR 2009.

    Args:
        rankings: each best first; a passage stands in at most one of them (they are of different collections).

    Returns:
        All hits, best first, ties by their own score and then by identity; scores stay as they were. Those beyond
        enough of their document come after all others.
    """
    placed = [(1 / (RRF_K + rank), hit) for ranking in rankings for rank, hit in enumerate(ranking, start=1)]
    placed.sort(
        key=lambda one: (one[1].beyond, -one[0], -one[1].score, one[1].collection, one[1].document, one[1].index)
    )
    return [hit for _, hit in placed]


def fusion_of(model: str, limits: Limits) -> Fusion:
    """How the legs of a hybrid search with a model are fused: as the settings say, else as was measured for it.

    Args:
        model: ``<provider>/<model id>``, or :data:`~knowledge_worker.domain.collection.NO_MODEL`.
    """
    weight = WEIGHTS.get(model, WEIGHT_DEFAULT) if limits.hybrid_weight is None else limits.hybrid_weight
    return Fusion(method=FusionMethod(limits.hybrid_fusion), weight=weight)
