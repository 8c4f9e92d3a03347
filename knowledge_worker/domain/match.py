"""What a search answers (specification rule 59)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Match(BaseModel):
    """A passage with its score and where it comes from.

    Attributes:
        index: of the passage within its document, from 0.
        score: cosine similarity, -1 to 1.
        section: the headings above the passage, outermost first.
        lines: first and last line within the document, from 1.
        trusted: whether the collection's sources are all trusted.
    """

    model_config = ConfigDict(frozen=True)

    collection: str
    document: str
    index: int
    text: str
    score: float
    title: str | None = None
    source: str | None = None
    section: tuple[str, ...] = ()
    lines: tuple[int, int]
    trusted: bool


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
    """

    model_config = ConfigDict(frozen=True)

    matches: tuple[Match, ...] = ()
    truncated: bool = False
    unavailable: tuple[Unavailable, ...] = Field(default=())
