"""No vector leaves this room unchecked (rule 28): junk that is stored tops every search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowledge_worker.errors import EmbeddingUnavailableError
from knowledge_worker.ports import Vectors


def checked_vectors(
    rows: Sequence[Sequence[float]] | Sequence[NDArray[Any]] | NDArray[Any],
    *,
    count: int,
    dimensions: int | None,
    model: str,
    indexes: Sequence[int] | None = None,
    calls: int = 1,
) -> Vectors:
    """Check an answer and bring it into the one form that is stored and searched.

    Args:
        rows: the vectors as they came.
        count: how many texts were sent.
        dimensions: of the generation, or None when this answer tells them.
        model: its id, for the message.
        indexes: the text each row belongs to; None when the rows are in the order of the texts.
        calls: HTTP requests made so far, for the error.

    Returns:
        Float32 array of shape ``(count, dimensions)``, rows in the order of the texts, each of unit length.

    Raises:
        EmbeddingUnavailableError: too few, too many, doubled, of other dimensions, not finite, or zero.
    """

    def unusable(problem: str) -> EmbeddingUnavailableError:
        return EmbeddingUnavailableError(f"{model} answered vectors that cannot be used: {problem}.", calls=calls)

    if len(rows) != count:
        raise unusable(f"{len(rows)} for {count} texts")
    if indexes is not None and sorted(indexes) != list(range(count)):
        raise unusable("their indexes are not those of the texts")
    found = {len(row) for row in rows}
    if len(found) != 1:
        raise unusable("their dimensions differ")
    width = found.pop()
    if width == 0 or (dimensions is not None and width != dimensions):
        raise unusable(f"{width} dimensions" + ("" if dimensions is None else f" in place of {dimensions}"))
    try:
        vectors = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise unusable("a component is no number") from None
    if not np.isfinite(vectors).all():
        raise unusable("a component is not finite")
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    if not (largest > 0).all():
        raise unusable("one is zero")
    # Scaled first, so that the squares of huge or tiny components neither overflow nor vanish.
    vectors /= largest
    unit = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    if indexes is None:
        return unit
    ordered = np.empty_like(unit)
    ordered[np.asarray(indexes)] = unit
    return ordered
