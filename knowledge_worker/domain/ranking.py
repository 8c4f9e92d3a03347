"""How passages are ranked: by meaning, by words, or by both."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

CANDIDATES: Final = 100
"""Passages that each leg of a search contributes."""
RRF_K: Final = 60
WEIGHT_DEFAULT: Final = 0.4
"""Of the semantic leg: it wins with a good model and does no harm with a weak one (docs/decisions/0006-fusion.md)."""


class SearchMode(StrEnum):
    """What a search compares."""

    SEMANTIC = "semantic"
    LEXICAL = "lexical"
    HYBRID = "hybrid"


class ScoreKind(StrEnum):
    """What the number at a match is."""

    COSINE = "cosine"
    """Cosine similarity, -1 to 1."""
    BM25 = "bm25"
    """At least 0, without an upper bound; comparable within one answer only."""
    FUSED = "fused"
    """Of both legs, 0 to 1; comparable within one answer only."""


class FusionMethod(StrEnum):
    """How the two legs become one ranking."""

    WEIGHTED = "weighted"
    """``weight · cosine + (1 - weight) · BM25``, each scaled to 0 … 1 over its leg's candidates (min-max)."""
    RRF = "rrf"
    """``Σ 1/(60 + rank)``: Cormack, Clarke and Büttcher, SIGIR 2009; scaled so that first in both is 1."""


class Fusion(BaseModel):
    """How the legs of a hybrid search are fused.

    Attributes:
        weight: of the semantic leg, 0 to 1; used by the weighted method.
    """

    model_config = ConfigDict(frozen=True)

    method: FusionMethod = FusionMethod.WEIGHTED
    weight: float = WEIGHT_DEFAULT
