"""The search: one statement for all collections that one model serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import RowMapping

from knowledge_worker.domain.collection import ChunkStorage, Collection
from knowledge_worker.domain.limits import Limits
from knowledge_worker.store.postgres.database import Database, TableGoneError, Transaction
from knowledge_worker.store.postgres.filters import filter_sql
from knowledge_worker.store.postgres.placement import own_table
from knowledge_worker.store.postgres.ranking import Statement
from knowledge_worker.store.postgres.rows import COLLECTIONS, collection_of
from knowledge_worker.store.postgres.words import query_words
from knowledge_worker.store.protocol import ChunkStore, Hit, SearchQuery, SearchTarget

FEW_PASSAGES: Final = 10_000


class PostgresChunks(ChunkStore):
    """An exact scan over each small generation, found through the primary key; HNSW over each large one."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._ef_search = limits.hnsw_ef_search

    def targets(self, names: Sequence[str] | None) -> Mapping[str, Collection]:
        with self._database.reading() as tx:
            rows = tx.rows(
                f"{COLLECTIONS} where cast(:names as text[]) is null or c.name = any(:names) order by c.name",
                names=None if names is None else list(names),
            )
        return {row["name"]: collection_of(row) for row in rows}

    def search(self, targets: Sequence[SearchTarget], query: SearchQuery) -> list[Hit] | None:
        by_key = {target.key: target for target in targets}
        indexed = query.vector is not None and any(one.generation.storage is ChunkStorage.OWN for one in targets)
        try:
            # How an index is searched is set for a transaction; each statement sees the newest state either way.
            with self._database.transaction() if indexed else self._database.reading() as tx:
                rows = self._rows(tx, by_key, query)
        except TableGoneError:
            return None
        if rows is None:
            return None
        hits = [
            Hit(
                collection=by_key[row["key"]].name,
                document=row["document"],
                index=row["ord"],
                text=row["text"],
                score=row["score"],
                title=row["title"],
                source=row["source"],
                section=tuple(row["section"]),
                lines=(row["line_start"], row["line_end"]),
                span=(row["char_start"], row["char_end"]),
                trusted=row["trusted"] and by_key[row["key"]].trusted,
                beyond=row["beyond"],
                cosine=row["cosine"],
                semantic_place=row["semantic_place"],
                bm25=row["bm25"],
                lexical_place=row["lexical_place"],
            )
            for row in rows
            if row["ord"] is not None
        ]
        return sorted(hits, key=lambda hit: (hit.beyond, -hit.score, hit.collection, hit.document, hit.index))

    def _rows(
        self, tx: Transaction, targets: Mapping[int, SearchTarget], query: SearchQuery
    ) -> Sequence[RowMapping] | None:
        """Rows of :class:`Statement`; None when a target is no longer as described."""
        own = {key for key, target in targets.items() if target.generation.storage is ChunkStorage.OWN}
        only, values = filter_sql(query.filters, "d")
        words = None
        if query.words is not None:
            words = query_words(tx, [one.generation.id for one in targets.values()], query.words)
        if query.vector is not None:
            values["query"] = "[" + ",".join(map(str, query.vector.tolist())) + "]"
        if own and query.vector is not None:
            # An index scan gives no more rows than ef_search on its own, and goes on in strict order when asked to.
            tx.rows(
                """
                select set_config('hnsw.ef_search', :ef, true), set_config('hnsw.iterative_scan', 'strict_order', true)
                """,
                ef=str(min(1000, max(self._ef_search, query.candidates))),
            )
        statement = Statement(
            targets=list(targets.values()),
            semantic=query.vector is not None,
            words=words,
            fusion=query.fusion,
            candidates=query.candidates,
            limit=query.limit,
            per_document=query.per_document,
            only=only,
            min_score=query.min_score is not None,
            exact={key for key in own if query.filters and self._few(tx, targets[key], only, values)},
        )
        while True:
            rows = tx.rows(statement.sql(), keys=list(targets), min_score=query.min_score, **values)
            found = {row["key"]: (row["serving"], row["storage"]) for row in rows}
            if found != {key: (one.generation.id, one.generation.storage) for key, one in targets.items()}:
                return None
            # An index may give up early; an exact scan never does. A passage may have common words alone.
            near = {row["key"] for row in rows if row["key"] in own and row["near"] < query.candidates}
            short = query.vector is None and sum(row["ord"] is not None for row in rows) < query.limit
            more_exact = near - set(statement.exact) if query.vector is not None else set[int]()
            more_words = set(targets) - set(statement.all_words) if short else set[int]()
            spread = statement.spread or _crowded(rows, query)
            if not more_exact and not more_words and spread is statement.spread:
                return rows
            statement = replace(
                statement,
                exact={*statement.exact, *more_exact},
                all_words={*statement.all_words, *more_words},
                spread=spread,
            )

    def _few(self, tx: Transaction, target: SearchTarget, only: str, values: Mapping[str, object]) -> bool:
        """Whether so few passages pass a filter that looking at all of them is quicker than an index is."""
        few: bool = tx.value(
            f"""
            with passing as materialized (
              select d.id from documents d where d.collection_id = :collection and {only} limit {FEW_PASSAGES + 1:d}
            )
            select case when (select count(*) from passing) <= {FEW_PASSAGES:d} then {FEW_PASSAGES:d} >= (
              select count(*) from (
                select from {own_table(target.generation.id)} k join passing on passing.id = k.document_id
                limit {FEW_PASSAGES + 1:d}) found)
            else false end
            """,
            collection=target.key,
            **values,
        )
        return few


def _crowded(rows: Sequence[RowMapping], query: SearchQuery) -> bool:
    """Whether a few documents may have taken the places of others among the candidates."""
    documents = {(row["key"], row["document"]) for row in rows if row["ord"] is not None}
    per_target = {row["key"]: (row["near"], row["worded"]) for row in rows}
    near, worded = (sum(counts) for counts in zip(*per_target.values(), strict=True))
    return len(documents) < query.documents and max(near, worded) >= query.candidates
