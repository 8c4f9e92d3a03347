"""A chunk: a slice of a document, and where in the document it lies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A slice of a document's text.

    Attributes:
        index: 0 for the first chunk of the document.
        text: ``document[start:end]``, 1 to 2000 characters (code points).
        section: the headings above the first paragraph that is this chunk's own, outermost first.
        line_start: 1-based line of the first character.
        line_end: 1-based line of the last character.
        start: offset of the first character in the document, in code points.
        end: offset behind the last character.
    """

    index: int
    text: str
    section: tuple[str, ...]
    line_start: int
    line_end: int
    start: int
    end: int
