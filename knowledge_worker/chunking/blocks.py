"""Markdown text into blocks: headings, paragraphs, lists, tables, fences and HTML.

Only what decides where a text may be cut is read, not all of CommonMark. Plain text is Markdown of paragraphs.
Lines end at ``\\n``, ``\\r\\n`` and ``\\r``; every line is looked at a bounded number of times, so the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

TITLE_MAX_CHARS: Final = 300
"""A longer line is not taken for a heading in the section path: it would be stored with every chunk below it."""

_SETEXT_MAX_LINES: Final = 3
_FRONT_MATTER_START = re.compile(r"---[ \t]*(?:\r\n|\r|\n)[\w-]+:[ \t\r\n]")
_FRONT_MATTER_END = re.compile(r"(?:\r\n|\r|\n)(?:---|\.\.\.)(?=[\r\n]|$)")
_LINE = re.compile(r"[^\r\n]+")
_ITEM = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|$)")
_ANCHOR = re.compile(r"<a [^<>]{1,200}>[ ]?</a>", re.IGNORECASE)
_RAW_TAG = re.compile(r"<(pre|script|style)(?:[ \t>]|$)")


class BlockKind(Enum):
    """What a block is, which decides where it is cut when it is over the limit."""

    HEADING = auto()
    ANCHOR = auto()
    PARAGRAPH = auto()
    LIST = auto()
    TABLE = auto()
    CODE = auto()


class Block(NamedTuple):
    """One block of a text.

    Attributes:
        kind: what it is; ``ANCHOR`` is an empty ``<a id="…">`` that names what follows, ``CODE`` is a fence (its fence
            lines included), raw HTML or front matter.
        start: offset of its first line, indentation included.
        end: offset behind its last character that is not white space.
        level: 1 to 6 for a heading, else 0.
        title: the words of a heading without its marks, else empty.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    title: str = ""


class _Line(NamedTuple):
    start: int
    end: int
    indent: int
    text: str
    after_blank: bool


def parse_blocks(text: str) -> Iterator[Block]:
    """Read the blocks of ``text``, in order; they never overlap and hold every character that is not white space."""
    return _Parser(text).parse()


class _Parser:
    """Walks over the lines that are not blank; each ``_read_*`` takes the lines of one block.

    Attributes:
        line: the next line to take; None at the end.
        below: the line after it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        # Lines are made one at a time: a text of a million short lines takes no more memory than another one.
        self._lines = _lines(text)
        self.line = next(self._lines, None)
        self.below = next(self._lines, None)

    def parse(self) -> Iterator[Block]:
        if (end := _front_matter_end(self.text)) is not None:
            yield self._read_front_matter(end)
        while (line := self.line) is not None:
            if line.indent < 4:
                if line.text[0] == "#" and (heading := _atx_heading(line)) is not None:
                    self._take()
                    yield heading
                elif _fence(line) is not None:
                    yield Block(BlockKind.CODE, line.start, self._take_fence())
                elif (tag := _html_end(line)) is not None:
                    yield self._read_html(line.start, tag)
                elif self._is_table(line):
                    yield self._read_table(line.start)
                elif _is_item(line):
                    yield self._read_list(line.start)
                else:
                    yield self._read_paragraph(line)
            else:
                yield self._read_paragraph(line)

    def _take(self) -> int:
        """Take the next line and answer its end."""
        end = self.line.end if self.line else len(self.text)
        self.line, self.below = self.below, next(self._lines, None)
        return end

    def _read_front_matter(self, end: int) -> Block:
        while self.line is not None and self.line.start < end:
            self._take()
        return Block(BlockKind.CODE, 0, end)

    def _take_fence(self, *, inside_item: bool = False) -> int:
        """Take a fence, its opening line first, and answer its end; an unclosed one runs to the end of the text.

        Args:
            inside_item: a fence inside a list item ends at the latest where a line is not indented any more: the item
                has ended there, and the fence with it.
        """
        opening = self.line
        mark, length = (opening and _fence(opening)) or ("", 0)
        end = self._take()
        while (line := self.line) is not None:
            if inside_item and line.indent == 0 and line.after_blank:
                break
            end = self._take()
            if line.text[0] == mark and len(line.text) >= length and not line.text.strip(mark):
                break
        return end

    def _read_html(self, start: int, tag: str) -> Block:
        end = start
        while (line := self.line) is not None:
            end = self._take()
            if tag in line.text.lower():
                break
        return Block(BlockKind.CODE, start, end)

    def _is_table(self, line: _Line) -> bool:
        """Whether a table starts at the next line: a row over a delimiter row, or two rows that open with a bar."""
        below = self.below
        if "|" not in line.text or below is None or below.after_blank:
            return False
        delimiter = "-" in below.text and "|" in below.text and not below.text.strip("|:- \t")
        return delimiter or (line.text[0] == "|" and below.text[0] == "|")

    def _read_table(self, start: int) -> Block:
        end = self._take()
        while (line := self.line) is not None and not line.after_blank and "|" in line.text:
            end = self._take()
        return Block(BlockKind.TABLE, start, end)

    def _read_list(self, start: int) -> Block:
        end = self._take()
        while (line := self.line) is not None:
            if line.indent >= 2:
                end = self._take_fence(inside_item=True) if _fence(line) is not None else self._take()
            elif _is_item(line) or not (line.after_blank or self._interrupts(line)):
                end = self._take()
            else:
                break
        return Block(BlockKind.LIST, start, end)

    def _read_paragraph(self, first: _Line) -> Block:
        above = [first]  # the first lines, which are a heading if they are underlined
        end = self._take()
        while (line := self.line) is not None and not line.after_blank:
            if line.indent < 4:
                if len(above) <= _SETEXT_MAX_LINES and (heading := _setext_heading(above, line)) is not None:
                    self._take()
                    return heading
                if _opens_list(line) or self._interrupts(line):
                    break
            end = self._take()
            if len(above) <= _SETEXT_MAX_LINES:
                above.append(line)
        is_anchor = len(above) == 1 and _ANCHOR.fullmatch(first.text) is not None
        return Block(BlockKind.ANCHOR if is_anchor else BlockKind.PARAGRAPH, first.start, end)

    def _interrupts(self, line: _Line) -> bool:
        """Whether a block that needs no blank line before it opens at ``line``, the next line."""
        first = line.text[0]
        if first == "#":
            return _atx_heading(line) is not None
        if first in "`~":
            return _fence(line) is not None
        if first == "<":
            return _html_end(line) is not None
        return self._is_table(line)


def _lines(text: str) -> Iterator[_Line]:
    """The lines of ``text`` that are not blank; ``text`` of each is stripped."""
    behind = 0  # offset behind the line terminator of the line before
    for start, end in _line_spans(text):
        raw = text[start:end]
        stripped = raw.strip()
        if not stripped:
            continue
        if len(stripped) == len(raw):
            yield _Line(start, end, 0, raw, start != behind)
        else:
            lead = raw[: len(raw) - len(raw.lstrip())]
            indent = len(lead.expandtabs(4)) if "\t" in lead else len(lead)
            yield _Line(start, start + len(raw.rstrip()), indent, stripped, start != behind)
        behind = end + (2 if text.startswith("\r\n", end) else 1)


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of the lines of ``text`` that are not empty."""
    if "\r" in text:
        yield from (match.span() for match in _LINE.finditer(text))
        return
    start = 0
    while (end := text.find("\n", start)) >= 0:
        if end > start:
            yield start, end
        start = end + 1
    if start < len(text):
        yield start, len(text)


def _front_matter_end(text: str) -> int | None:
    """Where the YAML ends that the text opens with, between two lines of three dashes."""
    if not _FRONT_MATTER_START.match(text):
        return None
    end = _FRONT_MATTER_END.search(text, 3)
    return end.end() if end else None


def _atx_heading(line: _Line) -> Block | None:
    rest = line.text.lstrip("#")
    level = len(line.text) - len(rest)
    if not 1 <= level <= 6 or (rest and rest[0] not in " \t"):
        return None
    title = rest.strip()
    bare = title.rstrip("#")
    if not bare or bare[-1] in " \t":
        title = bare.rstrip()
    if len(title) > TITLE_MAX_CHARS:
        return None
    return Block(BlockKind.HEADING, line.start, line.end, level, title)


def _setext_heading(above: list[_Line], line: _Line) -> Block | None:
    """The heading that ``line`` makes of the lines above it: level 1 over ``===``, level 2 over ``---``."""
    mark = line.text[0]
    if mark not in "=-" or len(line.text) < 2 or line.text.strip(mark):
        return None
    # A line above the title as well is how reStructuredText marks the title of a document.
    title = " ".join(part.text for part in above if part.text.strip("=-"))
    if not title or len(title) > TITLE_MAX_CHARS or above[0].indent >= 4:
        return None
    return Block(BlockKind.HEADING, above[0].start, line.end, 1 if mark == "=" else 2, title)


def _fence(line: _Line) -> tuple[str, int] | None:
    """The character and the length of the code fence that ``line`` opens."""
    mark = line.text[0]
    if mark not in "`~":
        return None
    info = line.text.lstrip(mark)
    length = len(line.text) - len(info)
    if length < 3 or (mark == "`" and "`" in info):
        return None
    return mark, length


def _html_end(line: _Line) -> str | None:
    """What ends the raw HTML that ``line`` opens."""
    if line.text[0] != "<":
        return None
    opening = line.text[:8].lower()
    if opening.startswith("<!--"):
        return "-->"
    tag = _RAW_TAG.match(opening)
    return f"</{tag[1]}>" if tag else None


def _is_item(line: _Line) -> bool:
    return line.text[0] in "-*+0123456789" and _ITEM.match(line.text) is not None and not _is_rule(line.text)


def _opens_list(line: _Line) -> bool:
    """Whether a list item may open at ``line`` right below a paragraph: 1986. is the end of a sentence, 1. is not."""
    if not _is_item(line) or len(line.text) < 3:
        return False
    return not line.text[0].isdigit() or line.text[:2] in ("1.", "1)")


def _is_rule(text: str) -> bool:
    """Whether the line is a thematic break: three or more of ``-``, ``*`` or ``_``, blanks between them or not."""
    return text[0] in "-*_" and text.count(text[0]) >= 3 and not text.strip(text[0] + " \t")
