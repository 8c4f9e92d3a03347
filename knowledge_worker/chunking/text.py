"""Text into chunks (specification rule 40): whole paragraphs packed, headings with what follows, some overlap."""

from __future__ import annotations

from typing import Final

from knowledge_worker.chunking.atoms import Atom, parse_atoms
from knowledge_worker.chunking.cut import cut
from knowledge_worker.chunking.split import GRAPHEMES, breaks_near_end
from knowledge_worker.domain.chunk import Chunk
from knowledge_worker.domain.limits import CHUNK_MAX_CHARS, CHUNK_OVERLAP_CHARS

CHUNKER_VERSION: Final = "text-v1"

_OVERLAP_MAX_CHARS: Final = CHUNK_OVERLAP_CHARS * 5 // 4
_OVERLAP_MIN_CHARS: Final = CHUNK_OVERLAP_CHARS // 10
_OWN_MAX_CHARS: Final = CHUNK_MAX_CHARS - _OVERLAP_MAX_CHARS


def chunk_text(text: str) -> list[Chunk]:
    """Cut ``text`` into chunks.

    Every chunk is a slice of ``text``, and every character that is not blank is in one. A chunk is its own part and,
    before it, about 200 characters of the chunk before, from the start of a sentence, a line or a word on; less where
    its own part leaves less room. A text of at most 2000 characters is one chunk. Lines are counted at ``\\n``,
    ``\\r\\n`` and ``\\r``.

    The cuts depend on the text around them alone, so an edit changes the chunks near it and no other (``cut.py``).

    Args:
        text: any text; Markdown or plain.

    Returns:
        The chunks in the order of the text; none for a blank text.
    """
    atoms = parse_atoms(text)
    if not atoms:
        return []
    if atoms[-1].end - atoms[0].start <= CHUNK_MAX_CHARS:
        groups = [(0, len(atoms))]
    else:
        groups = cut(atoms, limit=_OWN_MAX_CHARS)
    lines = _LineCounter(text)
    chunks: list[Chunk] = []
    before: tuple[int, int] | None = None  # the own part of the chunk before
    for first, behind in groups:
        own, end = atoms[first], atoms[behind - 1].end
        start = own.start if before is None else _overlap_start(text, before, own, end)
        line_start = lines.line_of(start)
        line_end = line_start + count_line_ends(text, start, end)
        chunks.append(
            Chunk(
                index=len(chunks),
                text=text[start:end],
                section=own.section,
                line_start=line_start,
                line_end=line_end,
                start=start,
                end=end,
            )
        )
        before = (own.start, end)
    return chunks


def _overlap_start(text: str, before: tuple[int, int], own: Atom, end: int) -> int:
    """Where the chunk of ``own`` … ``end`` starts, so that it repeats the end of the chunk before.

    Args:
        text: the whole text.
        before: start and end of the own part of the chunk before.
        own: the first atom of the chunk.
        end: the end of the chunk.

    Returns:
        Offset of a sentence, else of a line or a word, else of a grapheme; ``own.start`` where no room is left.
    """
    before_start, before_end = before
    room = min(_OVERLAP_MAX_CHARS, CHUNK_MAX_CHARS - (end - before_end), before_end - before_start - 1)
    if room < _OVERLAP_MIN_CHARS:
        return own.start
    wanted = min(CHUNK_OVERLAP_CHARS, room * 4 // 5)
    earliest, latest = before_end - room, before_end - wanted * 3 // 4
    for breaks in breaks_near_end(text, earliest - 1, before_end):
        inside = [position for position in breaks if earliest <= position <= latest]
        if inside:
            return min(inside, key=lambda position: abs(before_end - wanted - position))
    # Graphemes are counted from a place that is no grapheme's middle, so that flags are not cut in half.
    for match in GRAPHEMES.finditer(text, before_start, before_end):
        if match.start() >= before_end - wanted:
            return match.start()
    return own.start


def count_line_ends(text: str, start: int, end: int) -> int:
    """How many lines end inside ``text[start:end]``."""
    return text.count("\n", start, end) + text.count("\r", start, end) - text.count("\r\n", start, end)


class _LineCounter:
    """Numbers of lines for offsets that only grow, so that the text is read once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.offset = 0
        self.line = 1

    def line_of(self, offset: int) -> int:
        self.line += count_line_ends(self.text, self.offset, offset)
        self.offset = offset
        return self.line
