"""The sections of a document, by the same headings that passages carry."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from knowledge_worker.chunking.blocks import BlockKind, parse_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with everything below it, subsections included.

    Attributes:
        path: the headings, outermost first, its own last; what a match below it carries as ``section``.
        start: offset of its heading.
        end: offset of the next heading of its level or above, or of the end of the text.
    """

    path: tuple[str, ...]
    start: int
    end: int


def sections_of(text: str) -> list[Section]:
    """The sections of ``text`` in order; none where it has no headings."""
    found: list[Section] = []
    open_: list[tuple[int, str, int]] = []  # level, title, number in ``found``
    for block in parse_blocks(text):
        if block.kind is not BlockKind.HEADING:
            continue
        while open_ and open_[-1][0] >= block.level:
            _close(found, open_.pop(), block.start)
        open_.append((block.level, block.title, len(found)))
        path = tuple(title for _, title, _ in open_ if title)
        found.append(Section(path=path, start=block.start, end=len(text)))
    return found


def find_sections(sections: Sequence[Section], wanted: Sequence[str]) -> list[Section]:
    """The sections that ``wanted`` names: by the whole path, else by its last headings, else without regard to case."""
    exact = tuple(wanted)
    folded = tuple(map(_folded, exact))
    ways: tuple[Callable[[tuple[str, ...]], bool], ...] = (
        lambda path: path == exact,
        lambda path: path[-len(exact) :] == exact,
        lambda path: tuple(map(_folded, path[-len(exact) :])) == folded,
    )
    for fits in ways:
        found = [section for section in sections if fits(section.path)]
        if found:
            return found
    return []


def path_at(sections: Sequence[Section], offset: int) -> tuple[str, ...]:
    """The headings above ``offset``, or of the heading there."""
    number = bisect_right(sections, offset, key=lambda section: section.start)
    return sections[number - 1].path if number else ()


def _close(found: list[Section], opened: tuple[int, str, int], end: int) -> None:
    section = found[opened[2]]
    found[opened[2]] = Section(path=section.path, start=section.start, end=end)


def _folded(heading: str) -> str:
    return " ".join(heading.casefold().split())
