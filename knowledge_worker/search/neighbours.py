"""Neighbouring passages of one document that overlap are one match: nothing is read twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowledge_worker.store.protocol import Hit


def with_neighbour(kept: Sequence[Hit], hit: Hit) -> list[Hit]:
    """Add a hit to better ones, joined with those that it overlaps.

    Args:
        kept: best first; no two of them overlap.

    Returns:
        Hits, best first, no two of which overlap; a joined one has the place and the scores of its best part, and the
        text, lines and span of all of them.
    """
    overlapped = [better for better in kept if _overlap(better, hit)]
    if not overlapped:
        return [*kept, hit]
    best, *others = overlapped
    whole = _join(best, hit)
    for other in others:  # the hit lay between the two
        whole = _join(whole, other)
    return [whole if one is best else one for one in kept if one not in others]


def _overlap(one: Hit, other: Hit) -> bool:
    return (
        (one.collection, one.document) == (other.collection, other.document)
        and one.span[0] < other.span[1]
        and other.span[0] < one.span[1]
    )


def _join(better: Hit, hit: Hit) -> Hit:
    first, second = (better, hit) if better.span <= hit.span else (hit, better)
    longer = max(0, second.span[1] - first.span[1])
    return replace(
        better,
        index=first.index,
        text=first.text + (second.text[-longer:] if longer else ""),
        section=first.section,
        lines=(first.lines[0], max(first.lines[1], second.lines[1])),
        span=(first.span[0], max(first.span[1], second.span[1])),
    )
