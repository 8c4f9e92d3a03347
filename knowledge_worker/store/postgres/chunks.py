"""The search: one statement for all collections that one model serves."""

from __future__ import annotations

from collections.abc import Collection as AnyCollection
from collections.abc import Mapping, Sequence

from sqlalchemy import RowMapping

from knowledge_worker.domain.collection import ChunkStorage, Collection, Generation
from knowledge_worker.domain.limits import Limits
from knowledge_worker.domain.match import Match
from knowledge_worker.ports import Vectors
from knowledge_worker.store.postgres.database import Database, TableGoneError, Transaction
from knowledge_worker.store.postgres.placement import Part
from knowledge_worker.store.postgres.rows import COLLECTIONS, collection_of
from knowledge_worker.store.protocol import ChunkStore, SearchTarget

_TEXTS = "title, source, section, line_start, line_end, text"


class PostgresChunks(ChunkStore):
    """An exact scan over each small generation, found through the primary key; HNSW over each large one."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._ef_search = limits.hnsw_ef_search

    def targets(self, names: Sequence[str] | None) -> Mapping[str, Collection]:
        with self._database.transaction() as tx:
            rows = tx.rows(
                f"{COLLECTIONS} where cast(:names as text[]) is null or c.name = any(:names) order by c.name",
                names=None if names is None else list(names),
            )
        return {row["name"]: collection_of(row) for row in rows}

    def search(
        self, targets: Sequence[SearchTarget], vector: Vectors, *, limit: int, min_score: float | None
    ) -> list[Match] | None:
        by_key = {target.key: target for target in targets}
        try:
            with self._database.transaction() as tx:
                rows = self._rows(tx, by_key, vector, limit=limit, min_score=min_score)
        except TableGoneError:
            return None
        if rows is None:
            return None
        matches = [
            Match(
                collection=by_key[row["key"]].name,
                document=row["document"],
                index=row["ord"],
                text=row["text"],
                score=row["score"],
                title=row["title"],
                source=row["source"],
                section=tuple(row["section"]),
                lines=(row["line_start"], row["line_end"]),
                trusted=row["trusted"] and by_key[row["key"]].trusted,
            )
            for row in rows
            if row["ord"] is not None
        ]
        return sorted(matches, key=lambda match: (-match.score, match.collection, match.document, match.index))

    def _rows(
        self,
        tx: Transaction,
        targets: Mapping[int, SearchTarget],
        vector: Vectors,
        *,
        limit: int,
        min_score: float | None,
    ) -> Sequence[RowMapping] | None:
        """Rows of :func:`_statement`; None when a target is no longer as described."""
        own = {key for key, target in targets.items() if target.generation.storage is ChunkStorage.OWN}
        if own:
            # An index scan gives no more rows than ef_search on its own, and goes on in strict order when asked to.
            tx.rows(
                """
                select set_config('hnsw.ef_search', :ef, true), set_config('hnsw.iterative_scan', 'strict_order', true)
                """,
                ef=str(min(1000, max(self._ef_search, limit))),
            )
        exact: set[int] = set()
        while True:
            rows = tx.rows(
                _statement(targets.values(), limit=limit, exact=exact),
                query="[" + ",".join(map(str, vector.tolist())) + "]",
                keys=list(targets),
                min_score=-2.0 if min_score is None else min_score,
            )
            # Every collection has a row, matches or not, with what it serves in the snapshot of the search.
            found = {row["key"]: (row["serving"], row["storage"]) for row in rows}
            if found != {key: (one.generation.id, one.generation.storage) for key, one in targets.items()}:
                return None
            # An index may give up early; an exact scan never does.
            short = {row["key"] for row in rows if row["key"] in own and row["found"] < limit} - exact
            if not short:
                return rows
            exact |= short


def _statement(targets: AnyCollection[SearchTarget], *, limit: int, exact: AnyCollection[int]) -> str:
    """The SQL; generations and the limit stand in it as numbers, so that a cached plan fits each of them.

    Args:
        exact: keys of those whose index is not to be used.
    """
    branches = " union all ".join(_branch(target, limit, exact=target.key in exact) for target in targets)
    texts = " union all ".join(
        f"""
        select best.*, {_TEXTS} from best join {part.table} k on {part.where}
          and k.document_id = best.document_id and k.ord = best.ord where best.key = {target.key:d}
        """
        for target in targets
        for part in [_part(target.generation)]
    )
    return f"""
        with found as materialized ({branches}),
        best as materialized (
          select * from found where 1 - distance >= :min_score order by distance, document_id, ord limit {limit:d}
        ),
        texts as ({texts})
        select c.id as key, c.serving, s.storage, c.trusted, d.document_id as document, t.ord, 1 - t.distance as score,
               t.title, t.source, t.section, t.line_start, t.line_end, t.text,
               (select count(*) from found where found.key = c.id) as found
        from collections c
        left join generations s on s.id = c.serving
        left join texts t on t.key = c.id
        left join documents d on d.id = t.document_id
        where c.id = any(:keys)
    """


def _branch(target: SearchTarget, limit: int, *, exact: bool) -> str:
    part = _part(target.generation)
    distance = "embedding <=> cast(:query as halfvec)"
    if part.storage is ChunkStorage.SHARED or exact:
        order = f"({distance}) + 0, document_id, ord"  # the sum keeps the planner from the index
    else:
        order = distance
    return f"""
        (select {target.key:d} as key, document_id, ord, {distance} as distance from {part.table}
         where {part.where} order by {order} limit {limit:d})
    """


def _part(generation: Generation) -> Part:
    return Part(generation=generation.id, storage=generation.storage)
