"""Which generation a pass writes: the served one, one that was begun, or the next."""

from __future__ import annotations

from knowledge_worker.chunking import CHUNKER_VERSION
from knowledge_worker.domain.collection import Collection, Generation
from knowledge_worker.ports import EmbeddingModel
from knowledge_worker.store.protocol import GenerationStore, Guard


def matches(generation: Generation, model: EmbeddingModel) -> bool:
    """Whether a generation holds what this model and this chunker would write."""
    return (
        generation.model == model.id
        and generation.chunker == CHUNKER_VERSION
        and (model.dimensions is None or generation.dimensions is None or generation.dimensions == model.dimensions)
    )


def generation_to_write(
    store: GenerationStore, guard: Guard, collection: Collection, model: EmbeddingModel
) -> Generation:
    """The generation new content goes to; begins one, or deletes one that nobody wants any more, as needed."""
    building, serving = collection.building, collection.serving
    keep = building is not None and matches(building, model) and not (serving is not None and matches(serving, model))
    store.drop_others(guard, keep_building=keep)
    if keep and building is not None:
        return building
    if serving is not None and matches(serving, model):
        return serving
    return store.begin(guard, model=model.id, dimensions=model.dimensions, chunker=CHUNKER_VERSION)
