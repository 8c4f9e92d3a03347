"""Where the chunks of a generation are: in the table that small ones share, or in one of its own.

Whoever writes asks inside its transaction, under the collection's advisory lock: a move between the tables changes
``storage`` and ``step`` only with that lock to itself. While a move is under way, writers also note which documents
they touched, so that the end of the move repeats those and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import RowMapping

from knowledge_worker.domain.collection import ChunkStorage
from knowledge_worker.store.postgres.database import Transaction
from knowledge_worker.store.postgres.rows import COLLECTION_LOCK

COLUMNS: Final = (
    ("document_id", "int8"),
    ("ord", "int4"),
    ("text", "text"),
    ("text_hash", "bytea"),
    ("title", "text"),
    ("source", "text"),
    ("section", "text[]"),
    ("line_start", "int4"),
    ("line_end", "int4"),
    ("char_start", "int4"),
    ("char_end", "int4"),
    ("embedding", "halfvec"),
    ("word_count", "int4"),
    ("words", "tsvector"),
)
"""What every table of chunks has; the shared one also has ``generation_id``."""

NAMES: Final = ", ".join(name for name, _ in COLUMNS)


class Step(StrEnum):
    """What is done to the storage of a generation just now."""

    TO_OWN = "to_own"
    TO_SHARED = "to_shared"
    INDEXING = "indexing"
    """Its own table is indexed before the first search; meanwhile what is written waits in the shared table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The chunks of one generation in one table."""

    generation: int
    storage: ChunkStorage

    @property
    def table(self) -> str:
        return "chunks" if self.storage is ChunkStorage.SHARED else own_table(self.generation)

    @property
    def where(self) -> str:
        """SQL that is true of these chunks and of no others in the table."""
        return f"generation_id = {self.generation:d}" if self.storage is ChunkStorage.SHARED else "true"

    @property
    def insert_into(self) -> str:
        """``insert into … (columns) select …`` up to where the values of :data:`NAMES` follow."""
        if self.storage is ChunkStorage.SHARED:
            return f"insert into chunks (generation_id, {NAMES}) select {self.generation:d},"
        return f"insert into {self.table} ({NAMES}) select"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a generation's chunks are read and written.

    Attributes:
        dimensions: None as long as nothing was embedded.
        language: that its words are taken in; empty when it has none.
        serving: whether it is searched.
    """

    generation: int
    dimensions: int | None
    language: str
    serving: bool
    storage: ChunkStorage
    step: Step | None

    @property
    def shared(self) -> Part:
        return Part(generation=self.generation, storage=ChunkStorage.SHARED)

    @property
    def own(self) -> Part:
        return Part(generation=self.generation, storage=ChunkStorage.OWN)

    @property
    def written(self) -> Part:
        """Where chunks are written and deleted."""
        if self.step is Step.INDEXING:
            return self.shared
        return Part(generation=self.generation, storage=self.storage)

    @property
    def read(self) -> tuple[Part, ...]:
        """Where a document's chunks can be found; of one that was written again the old ones, too."""
        if self.step is Step.INDEXING:
            return (self.own, self.shared)
        return (self.written,)


OWN_TABLE_PREFIX: Final = "chunks_"


def own_table(generation: int) -> str:
    """The name of a generation's own table."""
    return f"{OWN_TABLE_PREFIX}{generation:d}"


_PLACES = """
    select g.id, g.dimensions, g.language, g.storage, g.step, g.id is not distinct from c.serving as serving
    from generations g join collections c on c.id = g.collection_id
"""


def place_written(tx: Transaction, key: int, generation: int) -> Place | None:
    """Where to write, None when the generation is neither served nor built. The lock must be held already."""
    row = tx.row(
        f"{_PLACES} where c.id = :key and g.id = :generation and g.id in (c.serving, c.building)",
        key=key,
        generation=generation,
    )
    return _place(row) if row else None


def place_read(tx: Transaction, generation: int) -> Place | None:
    """Where to read; it stays there until the transaction ends."""
    tx.rows(
        f"""
        select pg_advisory_xact_lock_shared({COLLECTION_LOCK}, collection_id) from generations where id = :generation
        """,
        generation=generation,
    )
    row = tx.row(f"{_PLACES} where g.id = :generation", generation=generation)
    return _place(row) if row else None


def places_of(tx: Transaction, key: int) -> list[Place]:
    """Where chunks of a collection are; the lock must be held already."""
    return [_place(row) for row in tx.rows(f"{_PLACES} where c.id = :key order by g.id", key=key)]


def forget_deleted(places: Sequence[Place], gone: str) -> str:
    """CTEs that delete the chunks of deleted documents, to follow the CTE that deletes them.

    Args:
        gone: the name of that CTE; it returns ``id``.

    Returns:
        SQL that begins with a comma.
    """
    parts = [
        f", gone_from_chunks as (delete from chunks c using {gone} where c.document_id = {gone}.id)",
        *(
            f", gone_from_{place.generation} as "
            f"(delete from {place.written.table} c using {gone} where c.document_id = {gone}.id)"
            for place in places
            if place.written.storage is ChunkStorage.OWN
        ),
        *(
            f", noted_{place.generation} as (insert into chunk_changes select {place.generation}, id from {gone} "
            "on conflict do nothing)"
            for place in places
            if place.step is not None
        ),
    ]
    return "".join(parts)


def note_changes(tx: Transaction, place: Place, documents: Sequence[int]) -> None:
    """Remember what a move has to repeat; nothing when there is none."""
    if place.step is not None:
        tx.run(
            """
            insert into chunk_changes (generation_id, document_id)
            select :generation, id from unnest(cast(:ids as bigint[])) as n (id) on conflict do nothing
            """,
            generation=place.generation,
            ids=list(documents),
        )


def count_up_to(tx: Transaction, part: Part, most: int) -> int:
    """How many chunks there are, counted no further than ``most``."""
    return tx.value(
        f"select count(*) from (select from {part.table} where {part.where} limit {most:d}) counted",
    )


def _place(row: RowMapping) -> Place:
    return Place(
        generation=row["id"],
        dimensions=row["dimensions"],
        language=row["language"],
        serving=row["serving"],
        storage=ChunkStorage(row["storage"]),
        step=Step(row["step"]) if row["step"] else None,
    )
