"""The search over one or several collections, whatever models serve them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from knowledge_worker.chunking.words import searchable_query
from knowledge_worker.declarations import KnowledgeCollection
from knowledge_worker.domain.collection import NO_MODEL, Collection, CollectionStatus
from knowledge_worker.domain.limits import PER_DOCUMENT_DEFAULT, RESULT_MAX_CHARS, RESULTS_DEFAULT, Limits
from knowledge_worker.domain.match import Explanation, Match, SearchResult, Unavailable
from knowledge_worker.domain.ranking import CANDIDATES, ScoreKind, SearchMode
from knowledge_worker.errors import (
    CollectionNotAllowedError,
    CollectionNotFoundError,
    CollectionNotReadyError,
    EmbeddingError,
    EmbeddingUnavailableError,
    NotSearchableError,
    ServiceUnavailableError,
)
from knowledge_worker.indexing.provider_gate import ProviderGate
from knowledge_worker.ports import EmbeddingModel, Observer, Operation, Vectors
from knowledge_worker.search.budget import within_budget
from knowledge_worker.search.fusion import fusion_of, reciprocal_rank_fusion
from knowledge_worker.search.request import SearchRequest, checked_request
from knowledge_worker.service.models import ModelBook
from knowledge_worker.service.query_vectors import QueryVectors
from knowledge_worker.store.protocol import Hit, SearchQuery, SearchTarget, Store

log = structlog.get_logger()

_TRIES = 5
"""A generation may be switched between the look at a collection and the search of it; more often is a fault."""


class Searching:
    """Answers searches in this process."""

    def __init__(
        self,
        *,
        store: Store,
        models: ModelBook,
        declared: Mapping[str, KnowledgeCollection],
        gate: ProviderGate,
        limits: Limits,
        observer: Observer,
    ) -> None:
        self._store = store
        self._models = models
        self._declared = declared
        self._limits = limits
        self._observer = observer
        self._vectors = QueryVectors(gate, limits)

    def search(
        self,
        query: object,
        *,
        collections: Iterable[object] | str | None = None,
        top_k: object = RESULTS_DEFAULT,
        min_score: object = None,
        mode: object = None,
        filters: object = None,
        per_document: object = PER_DOCUMENT_DEFAULT,
        explain: object = False,
    ) -> SearchResult:
        """Find the best passages; see :meth:`knowledge_worker.Knowledge.search`."""
        request = checked_request(
            query,
            collections=collections,
            top_k=top_k,
            min_score=min_score,
            mode=mode,
            filters=filters,
            per_document=per_document,
            explain=explain,
        )
        with self._observer.during(Operation.SEARCH, mode=request.mode) as seen:
            result = self._answer(request)
            seen.note(outcome="ok" if result.degraded is None else "degraded")
            return result

    def _answer(self, request: SearchRequest) -> SearchResult:
        for _ in range(_TRIES):
            found, unavailable = self._resolve(request)
            rankings = self._rankings(request, found)
            if rankings is None:
                continue
            models = {target.name: target.generation.model for target, _ in found}
            kinds = {target.name: ranking.kind for ranking in rankings for target in ranking.targets}
            hits = reciprocal_rank_fusion([ranking.hits for ranking in rankings])
            unavailable += [
                Unavailable(collection=target.name, reason=ranking.degraded)
                for ranking in rankings
                for target in ranking.targets
                if ranking.degraded and not target.generation.language
            ]
            kept, truncated = within_budget(hits, top_k=request.top_k, max_chars=RESULT_MAX_CHARS)
            return SearchResult(
                matches=tuple(_match(hit, kinds[hit.collection], models[hit.collection], request) for hit in kept),
                truncated=truncated,
                unavailable=tuple(unavailable),
                mode=request.mode,
                degraded=next((ranking.degraded for ranking in rankings if ranking.degraded), None),
            )
        raise ServiceUnavailableError("The collections change too fast to be searched; try again.")

    def _rankings(
        self, request: SearchRequest, found: Sequence[tuple[SearchTarget, EmbeddingModel | None]]
    ) -> list[_Ranking] | None:
        """One ranking a model; None when a collection changed meanwhile."""
        by_model: dict[str, tuple[EmbeddingModel | None, list[SearchTarget]]] = {}
        for target, model in found:
            name = "" if model is None else f"{model.id} {target.generation.dimensions}"
            by_model.setdefault(name, (model, []))[1].append(target)
        rankings: list[_Ranking] = []
        for model, targets in by_model.values():
            ranking = self._ranking(request, targets, model)
            if ranking is None:
                return None
            rankings.append(ranking)
        return rankings

    def _ranking(
        self, request: SearchRequest, targets: Sequence[SearchTarget], model: EmbeddingModel | None
    ) -> _Ranking | None:
        vector: Vectors | None = None
        degraded: str | None = None
        worded = request.mode is not SearchMode.SEMANTIC and any(target.generation.language for target in targets)
        if model is not None and request.mode is not SearchMode.LEXICAL:
            try:
                vector = self._vector(model, request.query, targets[0])
            except EmbeddingError as error:
                if not worded or request.min_score is not None:
                    raise
                degraded = error.message
                log.warning("search_degraded", model=model.id, error=error.message)
        hits = self._store.chunks.search(
            targets,
            SearchQuery(
                vector=vector,
                words=searchable_query(request.query) if worded else None,
                limit=min(CANDIDATES, request.per_document * request.top_k),
                per_document=request.per_document,
                documents=request.top_k,
                fusion=fusion_of(NO_MODEL if model is None else model.id, self._limits),
                min_score=request.min_score if vector is not None else None,
                filters=request.filters,
            ),
        )
        if hits is None:
            return None
        kind = ScoreKind.BM25 if vector is None else ScoreKind.FUSED if worded else ScoreKind.COSINE
        return _Ranking(targets=targets, kind=kind, hits=hits, degraded=degraded)

    def _vector(self, model: EmbeddingModel, query: str, target: SearchTarget) -> Vectors:
        vector = self._vectors.of(model, query)
        if len(vector) != target.generation.dimensions:
            self._vectors.forget(model, query)
            raise EmbeddingUnavailableError(
                f'The model "{model.id}" answered a vector of {len(vector)} dimensions; '
                f'the index of "{target.name}" has {target.generation.dimensions}.'
            )
        return vector

    def _resolve(
        self, request: SearchRequest
    ) -> tuple[list[tuple[SearchTarget, EmbeddingModel | None]], list[Unavailable]]:
        """What can be searched, with its model, and what cannot and why."""
        stored = self._store.chunks.targets(request.collections)
        found: list[tuple[SearchTarget, EmbeddingModel | None]] = []
        problems: list[tuple[str, Exception]] = []
        for name in request.collections if request.collections is not None else self._all(stored):
            try:
                one = self._searchable(name, stored.get(name), request.mode)
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

    def _searchable(
        self, name: str, collection: Collection | None, mode: SearchMode
    ) -> tuple[SearchTarget, EmbeddingModel | None] | None:
        """The target of a search; None for one that is served and empty and whose model never answered."""
        if collection is None:
            if name in self._declared:
                raise CollectionNotReadyError(name)
            raise CollectionNotFoundError(name)
        if collection.status is CollectionStatus.ORPHANED and name not in self._declared:
            raise CollectionNotAllowedError(name)
        serving = collection.serving
        if serving is None:
            raise CollectionNotReadyError(name)
        if serving.model == NO_MODEL and mode is SearchMode.SEMANTIC:
            raise NotSearchableError(f'Knowledge collection "{name}" has no model: it is searched by words only.')
        if not serving.language and mode is SearchMode.LEXICAL:
            raise NotSearchableError(f'Knowledge collection "{name}" cannot be searched by words before its next pass.')
        if serving.dimensions is None and serving.model != NO_MODEL:
            return None
        model = None if serving.model == NO_MODEL else self._models.serving(serving, collection)
        declared = self._declared.get(name)
        trusted = collection.trusted and (declared is None or declared.trusted)
        return SearchTarget(key=collection.key, name=name, trusted=trusted, generation=serving), model


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranking:
    """What one model's collections have, best first."""

    targets: Sequence[SearchTarget]
    kind: ScoreKind
    hits: list[Hit]
    degraded: str | None = None


def _match(hit: Hit, kind: ScoreKind, model: str, request: SearchRequest) -> Match:
    explanation = None
    if request.explain:
        explanation = Explanation(
            semantic_rank=hit.semantic_place,
            cosine=hit.cosine,
            lexical_rank=hit.lexical_place,
            bm25=hit.bm25,
            model=None if model == NO_MODEL else model,
        )
    return Match(
        collection=hit.collection,
        document=hit.document,
        index=hit.index,
        text=hit.text,
        score=hit.score,
        score_kind=kind,
        title=hit.title,
        source=hit.source,
        section=hit.section,
        lines=hit.lines,
        trusted=hit.trusted,
        explanation=explanation,
    )
