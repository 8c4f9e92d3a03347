"""Which model object a collection's declaration or a stored name means in this process."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_worker.declarations import KnowledgeCollection
from knowledge_worker.domain.collection import NO_MODEL, Collection, Generation
from knowledge_worker.embedding.measured import MeasuredModel
from knowledge_worker.embedding.none import NoModel
from knowledge_worker.errors import ConfigurationError, NotSearchableError, PreviousModelGoneError
from knowledge_worker.ports import EmbeddingModel, ModelResolver, Observer


class ModelBook:
    """Declared model objects are used as they are; names go to the resolver.

    Args:
        default: the one model of managed collections.
        observer: told of every call of a model.
    """

    def __init__(
        self,
        resolver: ModelResolver,
        *,
        declared: Mapping[str, KnowledgeCollection],
        default: str | EmbeddingModel | None,
        observer: Observer,
    ) -> None:
        self._resolver = resolver
        self._declared = declared
        self._default = default
        self._observer = observer
        objects = [one.model for one in declared.values()] + ([default] if default is not None else [])
        self._objects = {model.id: model for model in objects if not isinstance(model, str)}

    def resolve(self, model: str | EmbeddingModel) -> EmbeddingModel:
        """A declared model as an object.

        Raises:
            ConfigurationError: no such provider, no key, an extra is missing.
        """
        if model == NO_MODEL:
            return NoModel()
        if isinstance(model, str):
            model = self._objects.get(model) or self._resolver.resolve(model)
        return MeasuredModel(model, self._observer)

    def wanted(self, collection: Collection) -> EmbeddingModel:
        """The model that new content of a collection is embedded with."""
        declared = self._declared.get(collection.name)
        return self.resolve(declared.model if declared is not None else collection.model)

    def serving(self, generation: Generation, collection: Collection) -> EmbeddingModel:
        """The model whose vectors a generation holds.

        Raises:
            PreviousModelGoneError: it is being replaced and cannot be reached here.
            NotSearchableError: it cannot be reached here.
        """
        try:
            return self.resolve(generation.model)
        except ConfigurationError as error:
            if self._is_replaced(generation, collection):
                raise PreviousModelGoneError(collection.name, generation.model) from error
            raise NotSearchableError(
                f'Knowledge collection "{collection.name}" cannot be searched here: {error.message}'
            ) from error

    def default(self) -> EmbeddingModel | None:
        """The default model of managed collections, None when none is set."""
        return None if self._default is None else self.resolve(self._default)

    @property
    def default_id(self) -> str | None:
        """What the default model is called; it may turn out not to resolve."""
        return self._default if isinstance(self._default, str) or self._default is None else self._default.id

    def _is_replaced(self, generation: Generation, collection: Collection) -> bool:
        if collection.building is not None:
            return True
        declared = self._declared.get(collection.name)
        if declared is None:
            return False
        wanted = declared.model if isinstance(declared.model, str) else declared.model.id
        return wanted != generation.model
