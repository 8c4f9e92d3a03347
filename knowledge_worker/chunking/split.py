"""Where a block over the limit may be cut: the breaks of its text, strongest first.

A break lies behind a line terminator, behind white space or between two graphemes, never inside a grapheme. The
patterns are possessive and look back before a run, so that no run is scanned twice: the time is linear.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import regex

from knowledge_worker.chunking.blocks import BlockKind


class Break(IntEnum):
    """How strong a place to cut is: the smaller, the stronger. 1 to 6 are headings of that level."""

    PARAGRAPH = 7
    LEAD_IN = 8
    """Between a paragraph that ends with a colon and what it announces."""
    ITEM = 9
    PART = 10
    """A nested item, or a blank line inside a list or a fence."""
    SENTENCE = 11
    LINE = 12
    WORD = 13
    GRAPHEME = 14
    HEADING = 15
    """Between a heading and what follows; only where the headings alone are over half the limit."""


TINY_CHARS: Final = 64
"""A shorter piece is joined with the one after it …"""
JOINED_MAX_CHARS: Final = 256
"""… unless the two together are longer than this."""

_EXTENDS: Final = r"\p{GCB=Extend}\p{GCB=SpacingMark}\u200d"
# \X alone looks back over a run of flags for each of them, which is quadratic: pairs of them come first.
_GRAPHEME_PATTERN: Final = rf"(?:\p{{GCB=Regional_Indicator}}{{2}}[{_EXTENDS}]*+|\X)"
_MARKER: Final = r"(?:[-*+]|[0-9]{1,9}[.)])(?=[ \t\r\n])"

_LINE_END: Final = r"(?:\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029])"
LINE: Final = regex.compile(rf"{_LINE_END}(?:[ \t]*+{_LINE_END})*+")
"""Behind a line, and behind the blank lines after it."""
_SPACED_SENTENCE: Final = rf"(?<![.!?…؟۔։])[.!?…؟۔։]++[\"'”’»)\]*_]*+\s++(?![\p{{Ll}}{_EXTENDS}])"
SENTENCE: Final = regex.compile(
    rf"{_SPACED_SENTENCE}"
    rf"|(?<![。！？｡।॥။።។])[。！？｡।॥။።។]++[」』”’）】》]*+\s*+(?![{_EXTENDS}])"
)
_ASCII_SENTENCE: Final = regex.compile(_SPACED_SENTENCE)
"""Finds the same in ASCII, in less than half the time."""
WORD: Final = regex.compile(rf"(?:(?<!\s)\s++|[、，；：､\u200b]++\s*+)(?![{_EXTENDS}])")
GRAPHEME: Final = regex.compile(_GRAPHEME_PATTERN)
GRAPHEMES: Final = regex.compile(rf"(?>{_GRAPHEME_PATTERN}{{1,32}})")
"""Up to 32 graphemes: 32 times fewer matches."""
_ITEM: Final = regex.compile(rf"(?:\r\n|\r|\n)(?= ?{_MARKER})")
_PART: Final = regex.compile(rf"(?:\r\n|\r|\n)(?:(?=[ \t]*+{_MARKER})|(?:[^\S\r\n]*+(?:\r\n|\r|\n))++)")
_BLANK_LINE: Final = regex.compile(r"(?:\r\n|\r|\n)(?:[^\S\r\n]*+(?:\r\n|\r|\n))++")

_PROSE: Final = (
    (Break.SENTENCE, SENTENCE),
    (Break.LINE, LINE),
    (Break.WORD, WORD),
    (Break.GRAPHEME, GRAPHEMES),
    (Break.GRAPHEME, GRAPHEME),
)
_ROWS: Final = ((Break.PART, _BLANK_LINE), (Break.LINE, LINE), *_PROSE)
_BREAKS: Final = {
    BlockKind.HEADING: _PROSE,
    BlockKind.ANCHOR: _PROSE,
    BlockKind.PARAGRAPH: _PROSE,
    BlockKind.LIST: ((Break.ITEM, _ITEM), (Break.PART, _PART), *_PROSE),
    BlockKind.TABLE: _ROWS,
    BlockKind.CODE: _ROWS,
}


def breaks_within(
    text: str, kind: BlockKind, start: int, end: int, *, room: int, limit: int
) -> list[tuple[int, Break]]:
    """Break ``text[start:end]`` until no piece is over the limit.

    The strongest breaks are used first, all of them; only a piece still over the limit is broken at weaker ones.

    Args:
        text: the whole text.
        kind: the block's kind, which decides what its breaks are.
        start: offset of the block.
        end: offset behind the block.
        room: the longest first piece, in code points.
        limit: the longest other piece, in code points.

    Returns:
        Offset and strength of each break, in the order of the text, ``start`` and ``end`` not among them.
    """
    found: list[tuple[int, Break]] = []
    # A stack instead of recursion, the next piece on top: (start, end, index of the breaks to try).
    pieces = [(start, end, 0)]
    strength = {end: Break.GRAPHEME}
    while pieces:
        piece_start, piece_end, level = pieces.pop()
        longest = room if piece_start == start else limit
        if piece_end - piece_start <= longest:
            if piece_end != end:
                found.append((piece_end, strength.pop(piece_end)))
            continue
        break_, positions = _positions(text, _BREAKS[kind], level, piece_start, piece_end, longest)
        edges = [piece_start, *positions, piece_end]
        for position in positions:
            strength[position] = break_
        pieces += [(a, b, level + 1) for a, b in zip(edges[-2::-1], edges[:0:-1], strict=True)]
    return found


def _positions(
    text: str,
    levels: tuple[tuple[Break, regex.Pattern[str]], ...],
    level: int,
    start: int,
    end: int,
    longest: int,
) -> tuple[Break, list[int]]:
    """The breaks of one strength inside ``text[start:end]``."""
    if level >= len(levels):
        # One grapheme over the limit: nothing is left but to cut it.
        return Break.GRAPHEME, list(range(start + longest, end, longest))
    break_, pattern = levels[level]
    return break_, _thin(start, [match.end() for match in pattern.finditer(text, start, end) if match.end() < end], end)


def _thin(start: int, positions: list[int], end: int) -> list[int]:
    """Leave out breaks behind tiny pieces, so that a text of tiny lines or words costs no more than another one."""
    thinned: list[int] = []
    for position, after in zip(positions, [*positions[1:], end], strict=False):
        if position - start >= TINY_CHARS or after - start > JOINED_MAX_CHARS:
            thinned.append(position)
            start = position
    return thinned


def breaks_near_end(text: str, start: int, end: int) -> Iterator[list[int]]:
    """The breaks of ``text[start:end]``, its end excluded: the sentences, then the lines, then the words."""
    for pattern in (_ASCII_SENTENCE if text.isascii() else SENTENCE, LINE, WORD):
        yield [match.end() for match in pattern.finditer(text, start, end) if match.end() < end]
