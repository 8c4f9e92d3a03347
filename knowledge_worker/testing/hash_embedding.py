"""A model for tests whose vectors come from hashed words; no meaning, but equal words point the same way."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from knowledge_worker.ports import Embeddings, Purpose, Vectors

_WORD = re.compile(r"\w+")


def hash_vectors(texts: Sequence[str], dimensions: int) -> Vectors:
    """The vectors of ``texts``, the same in every process and on every machine.

    Each word gets a fixed pattern of +1 and -1; a text is the normalised sum over its words. So the cosine of two
    texts is about the share of words they have in common, and a text without words still has a direction.

    Returns:
        Float32 array of shape ``(len(texts), dimensions)``, each row of unit length.
    """
    rows = np.empty((len(texts), dimensions), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        words: list[str] = _WORD.findall(text.casefold())
        total = np.zeros(dimensions, dtype=np.float64)
        for word in words:
            total += _word_vector(word, dimensions)
        if not total.any():
            total = _word_vector(f"\x00{text}", dimensions).astype(np.float64)
        row[:] = total / np.linalg.norm(total)
    return rows


@lru_cache(maxsize=65_536)
def _word_vector(word: str, dimensions: int) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    encoded = word.encode("utf-8", "replace")
    bits = hashlib.shake_128(encoded).digest(-(-dimensions // 8))
    signs = np.unpackbits(np.frombuffer(bits, dtype=np.uint8))[:dimensions]
    return signs.astype(np.int8) * 2 - 1


class HashEmbedding:
    """An :class:`~knowledge_worker.ports.EmbeddingModel` without a provider, for tests only."""

    max_inputs = 2048

    def __init__(self, dimensions: int = 64, id: str = "test/hash") -> None:  # noqa: A002
        self._id = id
        self._dimensions = dimensions

    @property
    def id(self) -> str:
        """What generations are stored under."""
        return self._id

    @property
    def dimensions(self) -> int:
        """Of every vector."""
        return self._dimensions

    def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout_ms: int) -> Embeddings:  # noqa: ARG002
        """Embed ``texts``; never fails and makes no call."""
        return Embeddings(vectors=hash_vectors(texts, self._dimensions), tokens=0, calls=0)
