"""Query vectors: made once for each model, and kept for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from knowledge_worker.domain.limits import Limits
from knowledge_worker.errors import EmbeddingError
from knowledge_worker.indexing.embed import check_answer
from knowledge_worker.indexing.provider_gate import QUERY_PATIENCE_MS, ProviderGate
from knowledge_worker.ports import EmbeddingModel, Embeddings, Vectors

KEPT: Final = 256
"""Queries; a megabyte at 1024 dimensions. Agents ask the same again, page by page and run by run."""


class QueryVectors:
    """Embeds queries; any thread may ask.

    Args:
        gate: asked before each call; a query does not wait long there.
    """

    def __init__(self, gate: ProviderGate, limits: Limits) -> None:
        self._gate = gate
        self._timeout_ms = limits.query_timeout_ms
        self._kept: OrderedDict[tuple[str, str], Vectors] = OrderedDict()
        self._mutex = threading.Lock()

    def of(self, model: EmbeddingModel, query: str) -> Vectors:
        """The vector of ``query``, float32 of shape ``(dimensions,)``.

        Raises:
            EmbeddingError: the query did not become a vector.
        """
        key = (model.id, query)
        with self._mutex:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        answer = self._ask(model, query)
        check_answer(answer.vectors, 1, model.id)
        vector = answer.vectors[0]
        with self._mutex:
            self._kept[key] = vector
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return vector

    def _ask(self, model: EmbeddingModel, query: str) -> Embeddings:
        turn = self._gate.enter(model, [query], patience_ms=min(QUERY_PATIENCE_MS, self._timeout_ms))
        try:
            answer = model.embed([query], purpose="query", timeout_ms=self._timeout_ms)
        except EmbeddingError as error:
            self._gate.ended(turn, error)
            raise
        self._gate.ended(turn, None)
        return answer

    def forget(self, model: EmbeddingModel, query: str) -> None:
        """Ask the model again the next time."""
        with self._mutex:
            self._kept.pop((model.id, query), None)
