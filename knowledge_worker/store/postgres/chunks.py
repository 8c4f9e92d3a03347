"""The search: one statement for all collections that one model serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knowledge_worker.domain.collection import Collection
from knowledge_worker.domain.match import Match
from knowledge_worker.ports import Vectors
from knowledge_worker.store.postgres.database import Database
from knowledge_worker.store.postgres.rows import COLLECTIONS, collection_of
from knowledge_worker.store.protocol import ChunkStore, SearchTarget


class PostgresChunks(ChunkStore):
    """An exact scan over each generation, found through the primary key."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        with self._database.transaction() as tx:
            rows = tx.rows(
                _statement(targets),
                query="[" + ",".join(map(str, vector.tolist())) + "]",
                keys=list(by_key),
                limit=limit,
                min_score=-2.0 if min_score is None else min_score,
            )
        # Every collection has a row, matches or not, with what it serves in the snapshot of the search.
        found = {row["key"]: row["serving"] for row in rows}
        if found != {key: target.generation.id for key, target in by_key.items()}:
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


def _statement(targets: Sequence[SearchTarget]) -> str:
    """The SQL; generations stand in it as numbers, so that no cached plan serves another one."""
    branches = " union all ".join(
        f"""
        (select {int(target.key)} as key, generation_id, document_id, ord,
                embedding <=> cast(:query as halfvec) as distance
         from chunks where generation_id = {int(target.generation.id)}
         order by distance, document_id, ord limit :limit)
        """
        for target in targets
    )
    return f"""
        with best as materialized (
          select * from ({branches}) b where 1 - distance >= :min_score order by distance, document_id, ord limit :limit
        )
        select c.id as key, c.serving, c.trusted, d.document_id as document, k.ord, k.text, 1 - best.distance as score,
               k.title, k.source, k.section, k.line_start, k.line_end
        from collections c
        left join best on best.key = c.id
        left join chunks k on k.generation_id = best.generation_id and k.document_id = best.document_id
          and k.ord = best.ord
        left join documents d on d.id = best.document_id
        where c.id = any(:keys)
    """
