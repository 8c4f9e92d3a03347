"""The model of a collection without one: it is searched by words only and never asked for a vector."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_worker.domain.collection import NO_MODEL
from knowledge_worker.errors import ConfigurationError
from knowledge_worker.ports import EmbeddingModel, Embeddings, Purpose


class NoModel(EmbeddingModel):
    """Stands where a model is expected."""

    @property
    def id(self) -> str:
        """Never ``<provider>/<model>``."""
        return NO_MODEL

    @property
    def dimensions(self) -> int | None:
        """There are no vectors."""
        return None

    @property
    def max_inputs(self) -> int:
        """Of an :meth:`embed` that never comes."""
        return 1

    def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout_ms: int) -> Embeddings:  # noqa: ARG002
        """Refuse: nothing of such a collection is embedded.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError("This collection has no model: it is searched by words only.")
