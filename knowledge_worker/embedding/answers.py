"""The body of an embeddings answer, read without trust in any part of it."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray


class UnreadableError(Exception):
    """A body is no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Vectors as they came; :func:`~knowledge_worker.embedding.checking.checked_vectors` judges them."""

    rows: list[NDArray[Any]]
    indexes: list[int]
    tokens: int


def read_answer(body: bytes) -> Answer:
    """Read ``{"data": [{"index", "embedding"}], "usage"}``, vectors as numbers or as base64 of little-endian float32.

    Raises:
        UnreadableError: it is something else; the message says what, without any of its content.
    """
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise UnreadableError("it is no JSON") from None
    data: Any = cast("dict[str, Any]", answer).get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        raise UnreadableError("it holds no vectors")
    entries = cast("list[Any]", data)
    rows: list[NDArray[Any]] = []
    indexes: list[int] = []
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise UnreadableError("an entry is no object")
        fields = cast("dict[str, Any]", entry)
        index = fields.get("index", place)
        if not isinstance(index, int):
            raise UnreadableError("an index is no number")
        indexes.append(index)
        rows.append(_vector(fields.get("embedding")))
    return Answer(rows=rows, indexes=indexes, tokens=_tokens(cast("dict[str, Any]", answer).get("usage")))


def _vector(value: Any) -> NDArray[Any]:
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
        vector = np.asarray(value, dtype=np.float64)
    except (binascii.Error, ValueError, TypeError, OverflowError):
        raise UnreadableError("a vector cannot be read") from None
    if vector.ndim != 1:
        raise UnreadableError("a vector cannot be read")
    return vector


def _tokens(usage: Any) -> int:
    if not isinstance(usage, dict):
        return 0
    counts = cast("dict[str, Any]", usage)
    for name in ("prompt_tokens", "total_tokens"):
        count = counts.get(name)
        if isinstance(count, int) and count >= 0:
            return count
    return 0
