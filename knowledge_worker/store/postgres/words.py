"""Words that many passages of a generation have: counted now and then, looked up for each query.

A search by words looks at the passages that have one of the query's rare words; of the common ones it needs to know
only how common they are, and that changes slowly. So they are counted after a pass that changed the number of passages
by more than a tenth, never on a write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from knowledge_worker.store.postgres.database import Database, Transaction
from knowledge_worker.store.postgres.leases import check_guard
from knowledge_worker.store.postgres.placement import place_written
from knowledge_worker.store.protocol import Guard

COUNTED_AGAIN: Final = 0.1
"""Share of the passages that must have come or gone."""
COMMON_SHARE: Final = 0.01
COMMON_AT_LEAST: Final = 500
"""A word of fewer passages is not worth a row: looking at all of them is quick."""
SAMPLED: Final = 20_000
"""Of more passages, about so many are counted; half a second."""


@dataclass(slots=True, kw_only=True)
class QueryWords:
    """The words of a query in the language of one generation.

    Attributes:
        chunks: passages when they were counted.
        mean_words: of a passage.
        common: passages that have each of the words, of those that many have.
    """

    chunks: int
    mean_words: float
    words: list[str] = field(default_factory=list[str])
    common: dict[str, int] = field(default_factory=dict[str, int])


def count_words(database: Database, guard: Guard, generation: int) -> None:
    """Count the common words of a generation, unless that was done and little has changed since.

    Raises:
        LeaseLostError: the guard does not hold.
    """
    with database.transaction() as tx:
        check_guard(tx, guard)
        place = place_written(tx, guard.key, generation)
        if place is None or not place.language:
            return
        part = place.written
        counted: int = tx.value("select counted_chunks from generations where id = :id", id=generation)
        chunks: int = tx.value(f"select count(*) from {part.table} where {part.where}")
        if abs(chunks - counted) <= COUNTED_AGAIN * counted:
            return
        tx.run(
            f"""
            update generations set counted_chunks = :chunks,
              mean_words = (select coalesce(avg(word_count), 0) from {part.table} where {part.where})
            where id = :id
            """,
            id=generation,
            chunks=chunks,
        )
        tx.run("delete from common_words where generation_id = :id", id=generation)
        if chunks <= COMMON_AT_LEAST:
            return
        share = min(1.0, SAMPLED / chunks)
        sample = "" if share == 1.0 else f"tablesample bernoulli ({100 * share:.4f}) repeatable (1)"
        tx.run(
            f"""
            insert into common_words (generation_id, word, chunks)
            select :id, word, least(:chunks, round(ndoc / cast(:share as float8)))
            from ts_stat('select words from {part.table} {sample} where {part.where}')
            where ndoc / cast(:share as float8) > :least
            """,
            id=generation,
            chunks=chunks,
            share=share,
            least=max(COMMON_AT_LEAST, COMMON_SHARE * chunks),
        )


def query_words(tx: Transaction, generations: Sequence[int], searchable: str) -> dict[int, QueryWords]:
    """The words of a query for each generation that has words.

    Args:
        searchable: the query as :func:`~knowledge_worker.chunking.words.searchable_query` gives it.
    """
    found: dict[int, QueryWords] = {}
    for row in tx.rows(
        """
        select g.id, g.counted_chunks, g.mean_words, q.lexeme, w.chunks
        from generations g
        left join lateral unnest(to_tsvector(cast(g.language as regconfig), :query)) q on true
        left join common_words w on w.generation_id = g.id and w.word = q.lexeme
        where g.id = any(:generations) and g.language <> ''
        order by g.id, q.lexeme
        """,
        generations=list(generations),
        query=searchable,
    ):
        one = found.setdefault(row["id"], QueryWords(chunks=row["counted_chunks"], mean_words=row["mean_words"]))
        if row["lexeme"] is not None:
            one.words.append(row["lexeme"])
            if row["chunks"] is not None:
                one.common[row["lexeme"]] = row["chunks"]
    return found
