"""What a search answers (specification rule 59)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from knowledge_worker.domain.ranking import ScoreKind, SearchMode


class Explanation(BaseModel):
    """What each leg of a search says of a passage; None where the leg did not find it, or was not asked.

    Attributes:
        semantic_rank, lexical_rank: from 1, among the candidates of all collections that one model serves.
        cosine: similarity, -1 to 1.
        bm25: at least 0.
        model: that serves the collection; None for one without a model.
    """

    model_config = ConfigDict(frozen=True)

    semantic_rank: int | None
    cosine: float | None
    lexical_rank: int | None
    bm25: float | None
    model: str | None


class Match(BaseModel):
    """A passage with its score and where it comes from.

    Attributes:
        index: of the passage within its document, from 0; of the first one where neighbours were joined.
        score: the higher the better; ``score_kind`` says of what.
        section: the headings above the passage, outermost first.
        lines: first and last line within the document, from 1.
        trusted: whether the collection's sources are all trusted.
        explanation: where it was asked for.
    """

    model_config = ConfigDict(frozen=True)

    collection: str
    document: str
    index: int
    text: str
    score: float
    score_kind: ScoreKind = ScoreKind.COSINE
    title: str | None = None
    source: str | None = None
    section: tuple[str, ...] = ()
    lines: tuple[int, int]
    trusted: bool
    explanation: Explanation | None = None


class Unavailable(BaseModel):
    """A collection that could not be searched, and why."""

    model_config = ConfigDict(frozen=True)

    collection: str
    reason: str


class SearchResult(BaseModel):
    """The matches, best first.

    Attributes:
        truncated: whether matches were left out to stay within 20 000 characters.
        unavailable: collections that were asked for and not searched.
        mode: how was searched.
        degraded: why a hybrid search went by words alone.
    """

    model_config = ConfigDict(frozen=True)

    matches: tuple[Match, ...] = ()
    truncated: bool = False
    unavailable: tuple[Unavailable, ...] = Field(default=())
    mode: SearchMode = SearchMode.SEMANTIC
    degraded: str | None = None
