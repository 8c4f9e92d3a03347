"""Generations: begun, filled document by document, dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from sqlalchemy import RowMapping

from knowledge_worker.domain.collection import ChunkStorage, Generation, GenerationState
from knowledge_worker.domain.language import SIMPLE
from knowledge_worker.domain.limits import DIMENSIONS_MAX, Limits
from knowledge_worker.domain.passes import PassCounts
from knowledge_worker.errors import ConfigurationError, EmbeddingUnavailableError, LeaseLostError
from knowledge_worker.ports import Vectors
from knowledge_worker.store.postgres.chunk_writes import write_chunks
from knowledge_worker.store.postgres.database import NOW, Database, Transaction
from knowledge_worker.store.postgres.leases import check_guard, lock_collection
from knowledge_worker.store.postgres.moves import StorageMoves
from knowledge_worker.store.postgres.own_tables import drop_unused_tables
from knowledge_worker.store.postgres.passes import add_counts
from knowledge_worker.store.postgres.placement import note_changes, place_read, place_written
from knowledge_worker.store.postgres.words import count_words
from knowledge_worker.store.protocol import ClaimedDocument, GenerationStore, Guard, SettledDocument


class PostgresGenerations(GenerationStore):
    """Chunks of small generations in one table, found by generation first; large ones have a table of their own."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._moves = StorageMoves(database, limits)
        self._written: dict[int, int] = {}

    def begin(
        self, guard: Guard, *, model: str, dimensions: int | None, chunker: str, language: str = SIMPLE
    ) -> Generation:
        if dimensions is not None and dimensions > DIMENSIONS_MAX:
            raise ConfigurationError(
                f'The model "{model}" gives {dimensions} dimensions; at most {DIMENSIONS_MAX} can be stored.'
            )
        with self._database.transaction() as tx:
            check_guard(tx, guard)
            row = tx.row(
                f"""
                insert into generations
                  (collection_id, number, slot, model, dimensions, chunker, language, created_at)
                select c.id, c.last_number + 1, coalesce(1 - s.slot, 0), :model, :dimensions, :chunker, :language, {NOW}
                from collections c left join generations s on s.id = c.serving where c.id = :key
                returning id, number, slot
                """,
                key=guard.key,
                model=model,
                dimensions=dimensions,
                chunker=chunker,
                language=language,
            )
            assert row is not None
            tx.run(
                "update collections set building = :id, last_number = :number where id = :key",
                key=guard.key,
                id=row["id"],
                number=row["number"],
            )
        return Generation(
            id=row["id"],
            number=row["number"],
            slot=row["slot"],
            model=model,
            dimensions=dimensions,
            chunker=chunker,
            language=language,
            state=GenerationState.BUILDING,
        )

    def drop_others(self, guard: Guard, *, keep_building: bool) -> int:
        with self._database.transaction() as tx:
            # Alone: a helper may still be writing to the generation that goes.
            check_guard(tx, guard, alone=True)
            if not keep_building:
                tx.run("update collections set building = null where id = :key", key=guard.key)
            gone = _drop_unused(tx, guard.key)
        self._moves.recover(guard)
        return gone

    def drop_unused(self, key: int) -> int:
        with self._database.transaction() as tx:
            lock_collection(tx, key)
            gone = _drop_unused(tx, key)
        drop_unused_tables(self._database, key)
        return gone

    def fit_storage(
        self, guard: Guard, generation: Generation, *, check: Callable[[], None], progress: Callable[[], None]
    ) -> None:
        self._moves.fit(guard, generation.id, check=check, progress=progress)
        count_words(self._database, guard, generation.id)

    def kept_vectors(
        self, generation: Generation, documents: Sequence[ClaimedDocument]
    ) -> Mapping[int, Mapping[bytes, Vectors]]:
        with self._database.transaction() as tx:
            rows = _read(
                tx,
                generation,
                [document.id for document in documents],
                "document_id, text_hash, cast(embedding as real[]) as vector",
            )
        kept: dict[int, dict[bytes, Vectors]] = {}
        for row in rows:
            if row["vector"] is not None:
                kept.setdefault(row["document_id"], {})[bytes(row["text_hash"])] = np.asarray(row["vector"], np.float32)
        return kept

    def kept_hashes(self, generation: Generation, keys: Sequence[int]) -> Mapping[int, frozenset[bytes]]:
        with self._database.transaction() as tx:
            rows = _read(tx, generation, keys, "document_id, text_hash")
        kept: dict[int, set[bytes]] = {}
        for row in rows:
            kept.setdefault(row["document_id"], set()).add(bytes(row["text_hash"]))
        return {key: frozenset(hashes) for key, hashes in kept.items()}

    def settle(
        self,
        guard: Guard,
        generation: Generation,
        settled: Sequence[SettledDocument],
        *,
        token: str,
        pass_id: int,
        work: PassCounts,
    ) -> int:
        with self._database.transaction() as tx:
            check_guard(tx, guard)
            place = place_written(tx, guard.key, generation.id)
            if place is None:
                raise LeaseLostError("The generation is not written any more.")
            _fix_dimensions(tx, generation, settled)
            # By version, too: what was put again meanwhile may be in hand twice, and the older one is dropped.
            held = {
                (row["id"], row["version"])
                for row in tx.rows(
                    f"""
                    with held as materialized (
                      select id from documents where id = any(cast(:ids as bigint[])) order by id for update
                    )
                    update documents d set settled_{generation.slot} = :generation,
                      status = case when n.error is null then 'ready' else 'failed' end, error = n.error,
                      claim_token = null, claim_until = null, deaths = 0, updated_at = {NOW}
                    from held, unnest(cast(:ids as bigint[]), cast(:versions as bigint[]), cast(:errors as text[]))
                      as n (id, version, error)
                    where d.id = held.id and d.id = n.id and d.version = n.version and d.claim_token = :token
                    returning d.id, d.version
                    """,
                    generation=generation.id,
                    token=token,
                    ids=[one.document.id for one in settled],
                    versions=[one.document.version for one in settled],
                    errors=[one.error for one in settled],
                )
            }
            kept = [one for one in settled if (one.document.id, one.document.version) in held]
            if kept:
                part = place.written
                ids = [one.document.id for one in kept]
                tx.run(f"delete from {part.table} where {part.where} and document_id = any(:ids)", ids=ids)
                write_chunks(tx, part, place.language, kept)
                note_changes(tx, place, ids)
            work.failed += sum(one.error is not None for one in kept)
            add_counts(tx, pass_id, work)
        if place.storage is ChunkStorage.SHARED and not place.serving:
            self._grown(guard.key, generation, sum(len(one.chunks) for one in kept))
        return len(kept)

    def _grown(self, key: int, generation: Generation, chunks: int) -> None:
        """Look at the size of a generation that is built, but not after every few chunks."""
        written = self._written.pop(generation.id, 0) + chunks
        if written < self._moves.looks_every:
            self._written[generation.id] = written
        else:
            self._moves.promote(key, generation.id)


def _read(tx: Transaction, generation: Generation, documents: Sequence[int], columns: str) -> list[RowMapping]:
    """Chunks of some documents: in the generation, and in the served one that the same model made."""
    served: int | None = tx.value(
        """
        select s.id from generations g
        join collections c on c.id = g.collection_id join generations s on s.id = c.serving
        where g.id = :id and s.id <> g.id and s.model = g.model
          and coalesce(g.dimensions = s.dimensions, true)
        """,
        id=generation.id,
    )
    places = [place_read(tx, one) for one in (served, generation.id) if one is not None]
    return [
        row
        for place in places
        if place is not None
        for part in place.read
        for row in tx.rows(
            f"select {columns} from {part.table} where {part.where} and document_id = any(:ids)", ids=list(documents)
        )
    ]


def _drop_unused(tx: Transaction, key: int) -> int:
    gone = [
        row["id"]
        for row in tx.rows(
            """
            delete from generations g using collections c
            where c.id = :key and g.collection_id = c.id
              and g.id is distinct from c.serving and g.id is distinct from c.building
            returning g.id
            """,
            key=key,
        )
    ]
    if gone:
        tx.run("delete from chunks where generation_id = any(:gone)", gone=gone)
    return len(gone)


def _fix_dimensions(tx: Transaction, generation: Generation, settled: Sequence[SettledDocument]) -> None:
    sizes = {one.vectors.shape[1] for one in settled if one.vectors is not None and len(one.vectors)}
    if not sizes:
        return
    expected = tx.value(
        """
        update generations set dimensions = coalesce(dimensions, :size) where id = :id returning dimensions
        """
        if generation.dimensions is None
        else "select dimensions from generations where id = :id and :size > 0",
        id=generation.id,
        size=max(sizes),
    )
    if max(sizes) > DIMENSIONS_MAX:
        raise ConfigurationError(
            f'The model "{generation.model}" gives {max(sizes)} dimensions; at most {DIMENSIONS_MAX} can be stored.'
        )
    if sizes != {expected}:
        raise EmbeddingUnavailableError(
            f'The model "{generation.model}" answered vectors of {max(sizes)} dimensions; '
            f"this generation has {expected}.",
            calls=0,
        )
