"""The search over one or several collections, whatever models serve them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from knowledge_worker.declarations import KnowledgeCollection
from knowledge_worker.domain.collection import Collection, CollectionStatus
from knowledge_worker.domain.limits import RESULT_MAX_CHARS, RESULTS_DEFAULT, Limits
from knowledge_worker.domain.match import Match, SearchResult, Unavailable
from knowledge_worker.errors import (
    CollectionNotAllowedError,
    CollectionNotFoundError,
    CollectionNotReadyError,
    EmbeddingUnavailableError,
    NotSearchableError,
    ServiceUnavailableError,
)
from knowledge_worker.indexing.embed import check_answer
from knowledge_worker.ports import EmbeddingModel, Vectors
from knowledge_worker.search.budget import within_budget
from knowledge_worker.search.fusion import reciprocal_rank_fusion
from knowledge_worker.search.request import SearchRequest, checked_request
from knowledge_worker.service.models import ModelBook
from knowledge_worker.store.protocol import SearchTarget, Store

_TRIES = 5
"""A generation may be switched between the look at a collection and the search of it; more often is a fault."""


class Searching:
    """Answers searches in this process."""

    def __init__(
        self, *, store: Store, models: ModelBook, declared: Mapping[str, KnowledgeCollection], limits: Limits
    ) -> None:
        self._store = store
        self._models = models
        self._declared = declared
        self._limits = limits

    def search(
        self,
        query: object,
        *,
        collections: Iterable[object] | str | None = None,
        top_k: object = RESULTS_DEFAULT,
        min_score: object = None,
    ) -> SearchResult:
        """Find the passages nearest in meaning; see :meth:`knowledge_worker.Knowledge.search`."""
        request = checked_request(query, collections=collections, top_k=top_k, min_score=min_score)
        vectors: dict[str, Vectors] = {}
        for _ in range(_TRIES):
            found, unavailable = self._resolve(request)
            rankings = self._rankings(request, found, vectors)
            if rankings is None:
                continue
            ranked = rankings[0] if len(rankings) == 1 else reciprocal_rank_fusion(rankings)
            matches, truncated = within_budget(ranked, top_k=request.top_k, max_chars=RESULT_MAX_CHARS)
            return SearchResult(matches=tuple(matches), truncated=truncated, unavailable=tuple(unavailable))
        raise ServiceUnavailableError("The collections change too fast to be searched; try again.")

    def _rankings(
        self,
        request: SearchRequest,
        found: list[tuple[SearchTarget, EmbeddingModel]],
        vectors: dict[str, Vectors],
    ) -> list[list[Match]] | None:
        """One ranking a model; None when a collection changed meanwhile."""
        by_model: dict[str, tuple[EmbeddingModel, list[SearchTarget]]] = {}
        for target, model in found:
            by_model.setdefault(f"{model.id} {target.generation.dimensions}", (model, []))[1].append(target)
        rankings: list[list[Match]] = []
        for model, targets in by_model.values():
            if model.id not in vectors:
                answer = model.embed([request.query], purpose="query", timeout_ms=self._limits.query_timeout_ms)
                check_answer(answer.vectors, 1, model.id)
                vectors[model.id] = answer.vectors[0]
            given, expected = len(vectors[model.id]), targets[0].generation.dimensions
            if given != expected:
                raise EmbeddingUnavailableError(
                    f'The model "{model.id}" answered a vector of {given} dimensions; '
                    f'the index of "{targets[0].name}" has {expected}.'
                )
            ranking = self._store.chunks.search(
                targets, vectors[model.id], limit=request.top_k, min_score=request.min_score
            )
            if ranking is None:
                return None
            rankings.append(ranking)
        return rankings

    def _resolve(self, request: SearchRequest) -> tuple[list[tuple[SearchTarget, EmbeddingModel]], list[Unavailable]]:
        """What can be searched, with its model, and what cannot and why."""
        stored = self._store.chunks.targets(request.collections)
        found: list[tuple[SearchTarget, EmbeddingModel]] = []
        problems: list[tuple[str, Exception]] = []
        for name in request.collections if request.collections is not None else self._all(stored):
            try:
                one = self._searchable(name, stored.get(name))
            except (NotSearchableError, CollectionNotFoundError) as error:
                problems.append((name, error))
                continue
            if one is not None:
                found.append(one)
        if problems and not found:
            raise problems[0][1]
        return found, [Unavailable(collection=name, reason=str(error)) for name, error in problems]

    def _all(self, stored: Mapping[str, Collection]) -> list[str]:
        seen = [
            name
            for name, one in stored.items()
            if one.status is not CollectionStatus.ORPHANED or name in self._declared
        ]
        return sorted({*seen, *self._declared})

    def _searchable(self, name: str, collection: Collection | None) -> tuple[SearchTarget, EmbeddingModel] | None:
        """The target of a search; None for one that is served and empty and whose model never answered."""
        if collection is None:
            if name in self._declared:
                raise CollectionNotReadyError(name)
            raise CollectionNotFoundError(name)
        if collection.status is CollectionStatus.ORPHANED and name not in self._declared:
            raise CollectionNotAllowedError(name)
        if collection.serving is None:
            raise CollectionNotReadyError(name)
        if collection.serving.dimensions is None:
            return None
        model = self._models.serving(collection.serving, collection)
        declared = self._declared.get(name)
        trusted = collection.trusted and (declared is None or declared.trusted)
        target = SearchTarget(key=collection.key, name=name, trusted=trusted, generation=collection.serving)
        return target, model
