"""How much of what was found is handed over."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_worker.search.neighbours import with_neighbour
from knowledge_worker.store.protocol import Hit


def within_budget(hits: Sequence[Hit], *, top_k: int, max_chars: int) -> tuple[list[Hit], bool]:
    """The best whole passages that fit, neighbours joined.

    Args:
        hits: best first; those beyond enough of their document come last, and only fill up to ``top_k`` passages.
        top_k: at most so many, a joined one counted once.
        max_chars: their texts together have at most so many characters.

    Returns:
        Those kept, best first, none overlapping another, and whether one was left out for its length.
    """
    kept: list[Hit] = []
    for taken, hit in enumerate(hits):
        if len(kept) == top_k or (hit.beyond and taken >= top_k):
            break
        grown = with_neighbour(kept, hit)
        if sum(len(one.text) for one in grown) > max_chars:
            return kept, True
        kept = grown
    return kept, False
