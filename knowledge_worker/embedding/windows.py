"""A passage longer than a model reads is embedded in windows; their mean is its vector, and nothing is cut off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def windows(words: Sequence[int | None], size: int) -> list[tuple[int, int]]:
    """Cut a row of tokens into as few windows as possible, of nearly one length, between words where that works.

    Args:
        words: for each token the number of its word; at least one.
        size: the most tokens of a window.

    Returns:
        ``(start, end)`` of each window, which together cover every token once.
    """
    parts: list[tuple[int, int]] = []
    start, total = 0, len(words)
    while total - start > size:
        left = -(-(total - start) // size)
        end = start + -(-(total - start) // left)
        cut = end
        while cut > start and words[cut] is not None and words[cut] == words[cut - 1]:
            cut -= 1
        # A word longer than a window has no better place to be cut.
        end = cut if cut > start else end
        parts.append((start, end))
        start = end
    return [*parts, (start, total)]


def mean_of_windows(
    vectors: NDArray[np.float32], lengths: Sequence[int], owners: Sequence[int], *, count: int
) -> NDArray[np.float64]:
    """Add up the windows of each text, each by its length.

    Args:
        vectors: one unit vector a window, shape ``(windows, dimensions)``.
        lengths: tokens of each window.
        owners: the text each window belongs to.
        count: how many texts there are, each with at least one window.

    Returns:
        Shape ``(count, dimensions)``, not normalised.
    """
    sums = np.zeros((count, vectors.shape[1]), dtype=np.float64)
    np.add.at(sums, np.asarray(owners), vectors * np.asarray(lengths, dtype=np.float64)[:, None])
    return sums
