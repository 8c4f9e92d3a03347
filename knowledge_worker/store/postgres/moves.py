"""Moves of a generation between the shared table and its own, while searches and writes go on.

A move copies in small transactions, builds the index outside of any, repeats what was written meanwhile, and only the
last of these steps, a short one, holds the collection's lock alone and changes ``storage``. A search reads the table
that ``storage`` names in its own snapshot, so it sees every chunk once at any time. Until that last step the copy is
worth nothing: a worker killed before it leaves a table that the next pass drops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from knowledge_worker.domain.collection import ChunkStorage
from knowledge_worker.domain.limits import Limits
from knowledge_worker.errors import LeaseLostError
from knowledge_worker.store.postgres.database import Database, Transaction
from knowledge_worker.store.postgres.leases import check_guard, lock_collection
from knowledge_worker.store.postgres.own_tables import (
    build_index,
    cancel_builds,
    create_own_table,
    drop_unused_tables,
    has_index,
)
from knowledge_worker.store.postgres.placement import NAMES, Part, Place, Step, count_up_to, place_written, places_of
from knowledge_worker.store.protocol import Guard

log = structlog.get_logger()

COPIED_AT_ONCE: Final = 5_000
"""Chunks that one transaction copies."""
REPEATED_AT_ONCE: Final = 20
"""Documents that one transaction repeats: inserts into an HNSW index are slow, and writers wait for them."""


class StorageMoves:
    """Gives each generation the storage that fits its size."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._up = limits.own_table_chunks
        self._down = min(limits.shared_table_chunks, limits.own_table_chunks // 2)
        self._memory_mb = limits.index_memory_mb

    @property
    def looks_every(self) -> int:
        """How many chunks may be written to a growing generation before :meth:`promote` looks at its size again."""
        return max(1, self._up // 10)

    def promote(self, key: int, generation: int) -> None:
        """Give a generation that is still built a table of its own once it is large; it is indexed at the end."""
        with self._database.transaction() as tx:
            place = place_written(tx, key, generation)
            if place is None or place.serving or not self._outgrown(tx, place):
                return
        with self._database.transaction() as tx:
            lock_collection(tx, key)
            place = place_written(tx, key, generation)
            if place is None or place.serving or not self._outgrown(tx, place):
                return
            if tx.value("select to_regclass(:table) is not null", table=place.own.table):
                return  # left by someone, and dropped by the next pass
            create_own_table(tx, generation, place.dimensions)
            tx.run(f"{place.own.insert_into} {NAMES} from chunks where {place.shared.where}")
            tx.run(f"delete from chunks where {place.shared.where}")
            tx.run("update generations set storage = 'own' where id = :id", id=generation)
        log.info("generation_promoted", generation=generation)

    def fit(self, guard: Guard, generation: int, *, check: Callable[[], None], progress: Callable[[], None]) -> None:
        """Move or index a generation as its size asks for; long, but never with the collection's lock in hand.

        Raises:
            LeaseLostError: the guard does not hold, or the generation is gone.
        """
        self.promote(guard.key, generation)
        with self._database.transaction() as tx:
            check_guard(tx, guard)
            place = place_written(tx, guard.key, generation)
            if place is None:
                raise LeaseLostError("The generation is not written any more.")
            outgrown = self._outgrown(tx, place)
            own = place.storage is ChunkStorage.OWN
            indexed = own and has_index(tx, generation)
            shrunken = indexed and place.serving and count_up_to(tx, place.own, self._down) < self._down
        if own and not indexed and place.serving:
            self._index(place, check, progress)  # someone dropped it; writers wait, searches scan
        elif own and not indexed:
            self._move(guard, place, Step.INDEXING, check, progress)
        elif outgrown:
            self._move(guard, place, Step.TO_OWN, check, progress)
        elif shrunken:
            self._move(guard, place, Step.TO_SHARED, check, progress)
            drop_unused_tables(self._database, guard.key)

    def recover(self, guard: Guard) -> None:
        """End what a worker that is gone has left half done."""
        with self._database.transaction() as tx:
            check_guard(tx, guard)
            unfinished = [place for place in places_of(tx, guard.key) if place.step is not None]
            for place in unfinished:
                cancel_builds(tx, place.generation)
        for place in unfinished:
            log.warning("move_abandoned", generation=place.generation, step=place.step)
            if place.step is Step.INDEXING:
                self._finish(guard, place, Step.INDEXING, lambda: None, lambda: None)
                continue
            with self._database.transaction() as tx:
                check_guard(tx, guard, alone=True)
                if place.step is Step.TO_SHARED:
                    tx.run(f"delete from chunks where {place.shared.where}")
                _end_step(tx, place, place.storage)
        drop_unused_tables(self._database, guard.key)

    def _outgrown(self, tx: Transaction, place: Place) -> bool:
        return place.storage is ChunkStorage.SHARED and count_up_to(tx, place.shared, self._up + 1) > self._up

    def _move(
        self, guard: Guard, place: Place, step: Step, check: Callable[[], None], progress: Callable[[], None]
    ) -> None:
        if not self._begin(guard, place, step):
            return
        log.info("move_started", generation=place.generation, step=step)
        if step is Step.TO_OWN:
            self._copy(guard, place.shared, place.own, check, progress)
        elif step is Step.TO_SHARED:
            self._copy(guard, place.own, place.shared, check, progress)
        if step is not Step.TO_SHARED:
            self._index(place, check, progress)
        self._finish(guard, place, step, check, progress)
        log.info("move_finished", generation=place.generation, step=step)

    def _begin(self, guard: Guard, place: Place, step: Step) -> bool:
        """From now on writers note what they change; False when a leftover table cannot be dropped yet."""
        drop_unused_tables(self._database, guard.key)
        with self._database.transaction() as tx:
            check_guard(tx, guard, alone=True)
            if step is Step.TO_OWN:
                if tx.value("select to_regclass(:table) is not null", table=place.own.table):
                    log.info("move_postponed", generation=place.generation, step=step)
                    return False
                create_own_table(tx, place.generation, place.dimensions)
            if step is not Step.TO_OWN:
                # Nothing of this generation may lie in the shared table; if it does, nobody reads it.
                tx.run(f"delete from chunks where {place.shared.where}")
            tx.run("update generations set step = :step where id = :id", id=place.generation, step=step)
        return True

    def _copy(
        self, guard: Guard, source: Part, target: Part, check: Callable[[], None], progress: Callable[[], None]
    ) -> None:
        after = 0
        while True:
            check()
            with self._database.transaction() as tx:
                check_guard(tx, guard)
                last: int | None = tx.value(
                    f"""
                    select max(document_id) from (
                      select document_id from {source.table} where {source.where} and document_id > :after
                      order by document_id limit {COPIED_AT_ONCE}) batch
                    """,
                    after=after,
                )
                if last is None:
                    return
                tx.run(
                    f"""
                    {target.insert_into} {NAMES} from {source.table}
                    where {source.where} and document_id > :after and document_id <= :last
                    """,
                    after=after,
                    last=last,
                )
            after = last
            progress()

    def _index(self, place: Place, check: Callable[[], None], progress: Callable[[], None]) -> None:
        with self._database.transaction() as tx:
            rows: int = tx.value(f"select count(*) from {place.own.table}")
        build_index(
            self._database,
            place.generation,
            rows=rows,
            dimensions=place.dimensions,
            memory_mb=self._memory_mb,
            check=check,
            progress=progress,
        )

    def _finish(
        self, guard: Guard, place: Place, step: Step, check: Callable[[], None], progress: Callable[[], None]
    ) -> None:
        """Repeat what was written since the step began; the last round changes the storage."""
        own = step is not Step.TO_SHARED
        source, target = (place.shared, place.own) if own else (place.own, place.shared)
        while True:
            check()
            with self._database.transaction() as tx:
                check_guard(tx, guard, alone=True)
                changed = _take_changes(tx, place.generation)
                if changed:
                    tx.run(f"delete from {target.table} where {target.where} and document_id = any(:ids)", ids=changed)
                    tx.run(
                        f"{target.insert_into} {NAMES} from {source.table} "
                        f"where {source.where} and document_id = any(:ids)",
                        ids=changed,
                    )
                if len(changed) < REPEATED_AT_ONCE:
                    if own:
                        tx.run(f"delete from chunks where {place.shared.where}")
                    _end_step(tx, place, target.storage)
                    return
            progress()


def _take_changes(tx: Transaction, generation: int) -> list[int]:
    rows = tx.rows(
        f"""
        delete from chunk_changes where generation_id = :id and document_id in (
          select document_id from chunk_changes where generation_id = :id
          order by document_id limit {REPEATED_AT_ONCE})
        returning document_id
        """,
        id=generation,
    )
    return [row["document_id"] for row in rows]


def _end_step(tx: Transaction, place: Place, storage: ChunkStorage) -> None:
    tx.run(
        "update generations set step = null, storage = :storage where id = :id", id=place.generation, storage=storage
    )
    tx.run("delete from chunk_changes where generation_id = :id", id=place.generation)
