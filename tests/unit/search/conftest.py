"""Hits as a store answers them."""

from __future__ import annotations

from dataclasses import replace

from knowledge_worker.store.protocol import Hit

PASSAGE = Hit(
    collection="docs",
    document="a",
    index=0,
    text="",
    score=0.5,
    title=None,
    source=None,
    section=(),
    lines=(1, 1),
    span=(0, 0),
    trusted=True,
    beyond=False,
    cosine=None,
    semantic_place=None,
    bm25=None,
    lexical_place=None,
)
"""Tests change what they are about."""


def passage(text: str, start: int, end: int, **values: object) -> Hit:
    """A slice of the text of a document that has one line a character."""
    return replace(PASSAGE, text=text[start:end], span=(start, end), lines=(start + 1, end), index=start, **values)  # type: ignore[arg-type]
