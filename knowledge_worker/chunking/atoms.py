"""Text into atoms: the smallest slices a chunk is made of, and how strong the place before each one is."""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple

from knowledge_worker.chunking.blocks import Block, BlockKind, parse_blocks
from knowledge_worker.chunking.split import JOINED_MAX_CHARS, TINY_CHARS, Break, breaks_within
from knowledge_worker.domain.document import is_blank
from knowledge_worker.domain.limits import CHUNK_MAX_CHARS

_LEAD_MAX_CHARS: Final = CHUNK_MAX_CHARS // 2
_HASHED_CHARS: Final = 64
_LEADING: Final = (BlockKind.HEADING, BlockKind.ANCHOR)
"""What stays with the block after it."""


class Atom(NamedTuple):
    """A slice that is never cut: a block with the headings above it, or a piece of a block over the limit.

    Attributes:
        start: offset of the first character.
        end: offset behind the last character that is not white space; at most 2000 behind ``start``.
        strength: of the break before it, a ``Break`` or the level of the heading it opens with; smaller is stronger.
        noise: 0 ≤ noise < 1, drawn from the first characters of the atom. It decides between breaks of one strength,
            and as it depends on nothing else, an edit elsewhere does not change the decision.
        section: the headings above its first paragraph, outermost first.
    """

    start: int
    end: int
    strength: int
    noise: float
    section: tuple[str, ...]


def parse_atoms(text: str) -> list[Atom]:
    """Read the atoms of ``text``, in order; they hold every character that is not blank."""
    return _Builder(text).build()


class _Group(NamedTuple):
    """A block and what is glued to it."""

    kind: BlockKind
    start: int
    block_start: int
    end: int
    strength: int
    section: tuple[str, ...]


class _Builder:
    """Glues the headings to the block after them, tiny blocks to the next one, and breaks what is over the limit."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.atoms: list[Atom] = []
        self.headings: list[Block] = []
        self.path: list[tuple[int, str]] = []
        self.section: tuple[str, ...] | None = ()
        self.before: Block | None = None  # the last block added
        self.tiny: _Group | None = None

    def build(self) -> list[Atom]:
        for block in parse_blocks(self.text):
            if self.headings and self._lead_end(block) - self.headings[0].start > _LEAD_MAX_CHARS:
                self._add_headings()
            if block.kind in _LEADING:
                self.headings.append(block)
                if block.kind is BlockKind.HEADING:
                    self._enter_section(block)
            else:
                self._add(block)
        if self.headings:
            self._add_headings()
        if self.tiny:
            self._break(self.tiny)
        return self.atoms

    def _lead_end(self, block: Block) -> int:
        return block.end if block.kind in _LEADING else block.start

    def _enter_section(self, heading: Block) -> None:
        while self.path and self.path[-1][0] >= heading.level:
            self.path.pop()
        self.path.append((heading.level, heading.title))
        self.section = None

    def _add_headings(self) -> None:
        """Add headings that nothing follows, or that are too long to stay with what follows."""
        last = self.headings.pop()
        self._add(Block(BlockKind.HEADING, last.start, last.end, last.level))

    def _add(self, block: Block) -> None:
        # A text of tiny blocks must cost no more than another one.
        if self.tiny and block.end - self.tiny.start <= JOINED_MAX_CHARS:
            group = self.tiny._replace(end=block.end)
        else:
            if self.tiny:
                self._break(self.tiny)
            start = self.headings[0].start if self.headings else block.start
            if self.section is None:
                self.section = tuple(title for _, title in self.path if title)
            group = _Group(block.kind, start, block.start, block.end, self._strength(block), self.section)
        self.headings = []
        self.before = block
        self.tiny = group if group.end - group.start < TINY_CHARS else None
        if not self.tiny:
            self._break(group)

    def _break(self, group: _Group) -> None:
        """Make ``group`` one atom, or several if it is over the limit."""
        breaks: list[tuple[int, Break]] = []
        if group.end - group.start > CHUNK_MAX_CHARS:
            room = CHUNK_MAX_CHARS - (group.block_start - group.start)
            breaks = breaks_within(
                self.text, group.kind, group.block_start, group.end, room=room, limit=CHUNK_MAX_CHARS
            )
        start, strength = group.start, group.strength
        for position, next_strength in [*breaks, (group.end, Break.PARAGRAPH)]:
            piece = self.text[start:position].rstrip()
            if not is_blank(piece):
                self.atoms.append(Atom(start, start + len(piece), strength, _noise(piece), group.section))
            start, strength = position, next_strength

    def _strength(self, block: Block) -> int:
        """How strong the place before ``block`` and its headings is."""
        if self.before and self.before.kind in _LEADING:
            return Break.HEADING
        if self.headings or block.kind in _LEADING:
            return min(heading.level or Break.PARAGRAPH for heading in [*self.headings, block])
        if self.before is None:
            return Break.PARAGRAPH
        announces = self.before.kind is BlockKind.PARAGRAPH and self.text[self.before.end - 1] in ":："
        return Break.LEAD_IN if announces and block.kind is not BlockKind.PARAGRAPH else Break.PARAGRAPH


def _noise(piece: str) -> float:
    code = zlib.crc32(piece[:_HASHED_CHARS].encode("utf-8", "surrogatepass"))
    # A checksum of similar strings is similar; the multiplication (Knuth, TAOCP 6.4) spreads it over all bits.
    return (code * 2654435761 & 0xFFFFFFFF) / 0x1_0000_0000
