"""How much of what was found is handed over."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_worker.domain.match import Match


def within_budget(matches: Sequence[Match], *, top_k: int, max_chars: int) -> tuple[list[Match], bool]:
    """The best whole passages that fit.

    Args:
        matches: best first.
        top_k: at most so many.
        max_chars: their texts together have at most so many characters.

    Returns:
        Those kept, best first, and whether one of the best ``top_k`` was left out for its length.
    """
    kept: list[Match] = []
    used = 0
    truncated = False
    for match in matches[:top_k]:
        if used + len(match.text) > max_chars:
            truncated = True
            break
        kept.append(match)
        used += len(match.text)
    return kept, truncated
