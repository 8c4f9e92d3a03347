"""Which atoms become one chunk: cuts that an edit moves only near the edit.

Packing from the front would move every later cut when one paragraph grows. Here a cut depends on the text around it
alone, in two steps:

1. Anchors, as in content-defined chunking (local maxima: Bjørner, Blass and Gurevich, Content-dependent chunking for
   differential compression, 2010): a break that is stronger than every other one within ``_WINDOW_CHARS`` on both
   sides is always cut. Strength is structure first, the text's own noise second.
2. Between two anchors, the cuts with the least sum of costs that keep every piece within the limit: a shortest path
   over the breaks. A cut costs more the weaker its break is, and a small piece costs something too.

An edit therefore moves at most the anchors within the window, and the cuts between them.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from typing import Final

from knowledge_worker.chunking.atoms import Atom
from knowledge_worker.chunking.split import Break

_WINDOW_CHARS: Final = 600
"""A wider window fills chunks better and lets an edit reach further (``benchmarks/chunking.py`` shows both)."""
_SMALL_CHARS: Final = 800
_SMALL_COST: Final = 8.0
_NOISE_COST: Final = 4.0
_COSTS: Final = {
    Break.PARAGRAPH: 2.0,
    Break.LEAD_IN: 12.0,
    Break.ITEM: 4.0,
    Break.PART: 6.0,
    Break.SENTENCE: 8.0,
    Break.LINE: 12.0,
    Break.WORD: 16.0,
    Break.GRAPHEME: 20.0,
    Break.HEADING: 100.0,
}


def cut(atoms: Sequence[Atom], *, limit: int) -> list[tuple[int, int]]:
    """Group ``atoms`` into chunks.

    Args:
        atoms: at least one, in the order of the text.
        limit: the longest group of several atoms, in code points; a single atom may be longer.

    Returns:
        For each chunk the number of its first atom and the number behind its last one.
    """
    anchors = [0, *_anchors(atoms), len(atoms)]
    groups: list[tuple[int, int]] = []
    for first, behind in itertools.pairwise(anchors):
        groups += _cheapest(atoms, first, behind, limit)
    return groups


def _anchors(atoms: Sequence[Atom]) -> list[int]:
    """The atoms before which the break is the strongest within the window on both sides, and both sides fill it."""
    keys = [(atom.strength, atom.noise, number) for number, atom in enumerate(atoms)]
    forwards = _strongest(atoms, keys, range(1, len(atoms)))
    backwards = _strongest(atoms, keys, range(len(atoms) - 1, 0, -1))
    first, last = atoms[0].start + _WINDOW_CHARS, atoms[-1].end - _WINDOW_CHARS
    return [
        number
        for number in range(1, len(atoms))
        if forwards[number] and backwards[number] and first <= atoms[number].start <= last
    ]


def _strongest(atoms: Sequence[Atom], keys: Sequence[tuple[int, float, int]], order: range) -> list[bool]:
    """For each atom whether its key is the least of those within the window before it, walking in ``order``."""
    strongest = [False] * len(atoms)
    # Candidates for the minimum, their keys ascending: the sliding-window minimum in linear time.
    window: deque[int] = deque()
    for number in order:
        while window and abs(atoms[number].start - atoms[window[0]].start) > _WINDOW_CHARS:
            window.popleft()
        strongest[number] = not window or keys[number] < keys[window[0]]
        while window and keys[window[-1]] > keys[number]:
            window.pop()
        window.append(number)
    return strongest


def _cheapest(atoms: Sequence[Atom], first: int, behind: int, limit: int) -> list[tuple[int, int]]:
    """The cheapest cuts of the atoms from ``first`` up to ``behind``.

    Atoms are thinned, so the inner loop takes a bounded number of steps.
    """
    starts = [atom.start for atom in atoms[first:behind]]
    best = [0.0]  # the cost of everything before an atom when a chunk starts there
    before = [0]
    for count, atom in enumerate(atoms[first:behind], 1):
        least, choice = float("inf"), count - 1
        for start in range(count - 1, -1, -1):
            size = atom.end - starts[start]
            if size > limit and start != count - 1:
                break
            cost = best[start]
            if size < _SMALL_CHARS:
                cost += _SMALL_COST * (1 - size / _SMALL_CHARS)
            if cost < least:
                least, choice = cost, start
        best.append(least + (_cost(atoms[first + count]) if first + count < behind else 0.0))
        before.append(choice)
    groups: list[tuple[int, int]] = []
    end = behind - first
    while end > 0:
        groups.append((first + before[end], first + end))
        end = before[end]
    return groups[::-1]


def _cost(atom: Atom) -> float:
    """What a cut before ``atom`` costs."""
    structure = atom.strength / 6 if atom.strength < Break.PARAGRAPH else _COSTS[Break(atom.strength)]
    return 1.0 + structure + _NOISE_COST * atom.noise
