"""Any embedding model, with each of its calls told to an observer."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_worker.errors import EmbeddingRejectedError, EmbeddingUnavailableError
from knowledge_worker.ports import EmbeddingModel, Embeddings, Observer, Operation, Purpose


class MeasuredModel:
    """An :class:`~knowledge_worker.ports.EmbeddingModel` around another one, which it is in all other respects."""

    def __init__(self, model: EmbeddingModel, observer: Observer) -> None:
        self._model = model
        self._observer = observer

    def __repr__(self) -> str:
        return repr(self._model)

    @property
    def id(self) -> str:
        """That of the model."""
        return self._model.id

    @property
    def dimensions(self) -> int | None:
        """Those of the model."""
        return self._model.dimensions

    @property
    def max_inputs(self) -> int:
        """That of the model."""
        return self._model.max_inputs

    def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout_ms: int) -> Embeddings:
        """Embed ``texts``; the answer and every error are the model's."""
        provider, _, name = self.id.partition("/")
        with self._observer.during(Operation.CALL, provider=provider, model=name, purpose=purpose, calls=1) as seen:
            try:
                answer = self._model.embed(texts, purpose=purpose, timeout_ms=timeout_ms)
            except EmbeddingRejectedError as error:
                seen.note(outcome="refused", calls=error.calls)
                raise
            except EmbeddingUnavailableError as error:
                seen.note(outcome="rate_limited" if error.rate_limited else "unavailable", calls=error.calls)
                raise
            # A model in this process makes no requests; a call of it is one all the same.
            seen.note(outcome="ok", calls=answer.calls or 1, texts=len(texts), tokens=answer.tokens)
            return answer
