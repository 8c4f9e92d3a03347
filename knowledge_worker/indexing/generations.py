"""Which generation a pass writes: the served one, one that was begun, or the next."""

from __future__ import annotations

from knowledge_worker.chunking import CHUNKER_VERSION
from knowledge_worker.domain.collection import Collection, Generation
from knowledge_worker.ports import EmbeddingModel
from knowledge_worker.store.protocol import GenerationStore, Guard


def matches(generation: Generation, collection: Collection, model: EmbeddingModel) -> bool:
    """Whether a generation holds what would be written for the collection with this model."""
    return (
        generation.model == model.id
        and generation.chunker == CHUNKER_VERSION
        and generation.language == collection.language
        and (model.dimensions is None or generation.dimensions is None or generation.dimensions == model.dimensions)
    )


def generation_to_write(
    store: GenerationStore, guard: Guard, collection: Collection, model: EmbeddingModel
) -> Generation:
    """The generation new content goes to; begins one, or deletes one that nobody wants any more, as needed."""
    building, serving = collection.building, collection.serving
    current = serving is not None and matches(serving, collection, model)
    keep = building is not None and matches(building, collection, model) and not current
    store.drop_others(guard, keep_building=keep)
    if keep and building is not None:
        return building
    if serving is not None and current:
        return serving
    return store.begin(
        guard, model=model.id, dimensions=model.dimensions, chunker=CHUNKER_VERSION, language=collection.language
    )
