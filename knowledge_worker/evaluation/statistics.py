"""How far a mean over questions can be trusted, and whether two of them differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

RESAMPLES: Final = 10_000
CONFIDENCE: Final = 0.95
SEED: Final = 20_090_719
_AT_ONCE: Final = 2_000_000
"""Numbers held at a time: 16 MB."""


class Estimate(BaseModel):
    """A mean over questions and its confidence interval.

    Attributes:
        low, high: percentiles of the bootstrap (Efron, 1979): of the means over questions drawn with replacement.
    """

    model_config = ConfigDict(frozen=True)

    mean: float
    low: float
    high: float


class PairedDifference(Estimate):
    """The mean difference over the same questions.

    Attributes:
        p: how often chance alone gives so large a difference, of either sign: Fisher's randomisation test, recommended
            for retrieval by Smucker, Allan and Carterette (CIKM 2007).
    """

    p: float


def estimate(values: NDArray[np.float64], *, seed: int = SEED) -> Estimate:
    """The mean of ``values``, shape ``(questions,)`` with at least one, and its interval."""
    means = np.concatenate([values[drawn].mean(axis=1) for drawn in _draws(len(values), seed)])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(mean=float(values.mean()), low=float(low), high=float(high))


def paired_difference(
    values: NDArray[np.float64], others: NDArray[np.float64], *, seed: int = SEED
) -> PairedDifference:
    """``values - others``, both of shape ``(questions,)`` in the same order of questions, at least one."""
    differences = values - others
    found = estimate(differences, seed=seed)
    # Under chance each question could as well have been won by the other side.
    observed = abs(float(differences.sum())) - 1e-9
    as_large = sum(
        int((np.abs(np.where(drawn, differences, -differences).sum(axis=1)) >= observed).sum())
        for drawn in _draws(len(differences), seed, below=2)
    )
    return PairedDifference(**dict(found), p=(as_large + 1) / (RESAMPLES + 1))


def _draws(length: int, seed: int, *, below: int | None = None) -> Iterator[NDArray[np.int64]]:
    """:data:`RESAMPLES` rows of ``length`` whole numbers from 0 to below ``below`` (``length``), some rows a time."""
    generator = np.random.default_rng(seed)
    rows = max(1, _AT_ONCE // length)
    for first in range(0, RESAMPLES, rows):
        yield generator.integers(below or length, size=(min(rows, RESAMPLES - first), length))
