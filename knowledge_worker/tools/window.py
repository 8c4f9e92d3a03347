"""Which part of a text to show when not all of it fits."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\r|\n")
_NEAR_END_CHARS = 200


class Lines:
    """Numbers of lines, from 1, as passages count them: they end at ``\\n``, ``\\r\\n`` and ``\\r``."""

    def __init__(self, text: str) -> None:
        self._text_chars = len(text)
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        if len(self._starts) > 1 and self._starts[-1] == len(text):
            self._starts.pop()  # nothing stands behind the last line end

    @property
    def count(self) -> int:
        """How many there are; 1 for an empty text."""
        return len(self._starts)

    def number(self, offset: int) -> int:
        """The line that ``offset`` is in."""
        return bisect_right(self._starts, offset)

    def start(self, number: int) -> int:
        """Offset of the first character of a line."""
        return self._starts[number - 1]

    def end(self, number: int) -> int:
        """Offset behind a line and its line end."""
        return self._starts[number] if number < self.count else self._text_chars


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A slice of the text.

    Attributes:
        complete: all of what was asked for is in it.
    """

    start: int
    end: int
    complete: bool


def forward(text: str, lines: Lines, start: int, end: int, *, max_chars: int) -> Window:
    """As much of ``text[start:end]`` as fits, from its start on, in whole lines where that is possible."""
    if end - start <= max_chars:
        return Window(start=start, end=end, complete=True)
    return Window(start=start, end=_cut(text, lines, start, start + max_chars), complete=False)


def around(text: str, lines: Lines, start: int, end: int, *, max_chars: int) -> Window:
    """``text[start:end]`` with as much before and after it as fits, in whole lines."""
    room = max_chars - (end - start)
    if room <= 0:
        return forward(text, lines, start, end, max_chars=max_chars)
    before = min(start, max(room // 2, room - (len(text) - end)))
    first = _line_at_or_after(lines, start - before, start)
    last = min(len(text), first + max_chars)
    if last < len(text):
        last = max(_cut(text, lines, first, last), end)
    return Window(start=first, end=last, complete=True)


def _line_at_or_after(lines: Lines, offset: int, latest: int) -> int:
    number = lines.number(offset)
    if lines.start(number) == offset:
        return offset
    following = lines.end(number)
    return following if following <= latest else latest


def _cut(text: str, lines: Lines, start: int, end: int) -> int:
    """The last good place to cut in ``text[start:end]``: a line's start, else a space near the end, else anywhere."""
    line = lines.start(lines.number(end))
    if line > start:
        return line
    nearest = max(start + 1, end - _NEAR_END_CHARS)
    space = max(text.rfind(" ", nearest, end), text.rfind("\t", nearest, end))
    if space >= nearest:
        return space + 1
    while end > start + 1 and _joins(text[end - 1], text[end]):
        end -= 1
    return end


def _joins(before: str, after: str) -> bool:
    """Whether a cut between two characters would show half a character or half a line end."""
    return (
        bool(unicodedata.combining(after)) or after in "\u200d\ufe0f" or before == "\u200d" or before + after == "\r\n"
    )
