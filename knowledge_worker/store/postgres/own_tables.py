"""The tables of single generations: made, indexed and dropped."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg
import structlog
from sqlalchemy.exc import DBAPIError

from knowledge_worker.errors import ServiceUnavailableError
from knowledge_worker.store.postgres.database import Database, Transaction
from knowledge_worker.store.postgres.placement import own_table
from knowledge_worker.store.postgres.rows import COLLECTION_LOCK

log = structlog.get_logger()

DROP_LOCK_TIMEOUT_MS: Final = 200
"""A drop waits for the searches of its table; those that come later wait for the drop."""
BUILD_MEMORY_MIN_MB: Final = 64
BUILD_WORKERS: Final = 1
"""Beside the backend itself: twice as fast as none, and searches keep the other cores."""
LOOK_S: Final = 0.2
PROGRESS_S: Final = 2.0

_MARK: Final = "Passages of one generation, made and dropped by knowledge-worker."
"""The comment on our tables: another table may be called so, too, and is left alone."""


def create_own_table(tx: Transaction, generation: int, dimensions: int | None) -> None:
    """Make the empty table of a generation, without its indexes: those are built faster after the load.

    Args:
        dimensions: None for a generation without a model.
    """
    table = own_table(generation)
    tx.run(f"create table {table} (like chunks including defaults including storage)")
    # Dead rows cost an HNSW search twice: autovacuum comes earlier than by default.
    tx.run(
        f"""
        alter table {table} drop column generation_id, add primary key (document_id, ord),
          alter embedding type halfvec{"" if dimensions is None else f"({dimensions:d})"},
          alter embedding set storage plain, alter words set storage main,
          set (autovacuum_vacuum_scale_factor = 0.05)
        """
    )
    tx.run(f"comment on table {table} is '{_MARK}'")


def drop_unused_tables(database: Database, key: int) -> int:
    """Drop tables that no generation uses: those of collection ``key`` and of generations that are gone.

    A table that is searched just now stays for the next time.

    Returns:
        How many tables were dropped.
    """
    with database.transaction() as tx:
        found = tx.rows(
            """
            with tables as materialized (
              select relname from pg_class where relkind = 'r' and relname ~ '^chunks_[0-9]{1,18}$'
                and relnamespace = (select relnamespace from pg_class where oid = to_regclass('chunks'))
                and obj_description(oid, 'pg_class') = :mark
            )
            select substr(t.relname, 8)::bigint as generation, g.collection_id
            from tables t left join generations g on g.id = substr(t.relname, 8)::bigint
            where g.id is null or (g.collection_id = :key and g.storage <> 'own' and g.step is distinct from 'to_own')
            """,
            key=key,
            mark=_MARK,
        )
    return sum(_drop(database, row["generation"], row["collection_id"]) for row in found)


def build_index(
    database: Database,
    generation: int,
    *,
    rows: int,
    dimensions: int | None,
    memory_mb: int,
    check: Callable[[], None],
    progress: Callable[[], None],
) -> None:
    """Index the table of a generation, if that is not done yet; nobody may write to it meanwhile.

    Args:
        dimensions: None for a generation without a model; then its words alone are indexed.
        memory_mb: the most memory of the build; with too little it takes seven times as long.
        check: raises when the work must stop; then the build is cancelled.
        progress: called whenever the build moved.

    Raises:
        ServiceUnavailableError: the server could not build it.
    """
    statements = [
        f"create index if not exists {_words_index(generation)} on {own_table(generation)} "
        "using gin (words) with (fastupdate = off)"
    ]
    if dimensions is not None:
        statements.append(
            f"create index if not exists {_index(generation)} on {own_table(generation)} "
            "using hnsw (embedding halfvec_cosine_ops)"
        )
    with database.maintenance() as connection:
        _settings(connection, rows=rows, dimensions=dimensions, memory_mb=memory_mb)
        _watched(database, connection, f"vacuum (analyze) {own_table(generation)}", check, progress)
        try:
            _build(database, connection, statements, generation, check, progress)
        except psycopg.errors.DiskFull:
            # Most likely /dev/shm of a container is too small for the memory that parallel workers share.
            log.warning("index_built_without_parallel_workers", generation=generation)
            connection.execute("set max_parallel_maintenance_workers = 0")
            try:
                _build(database, connection, statements, generation, check, progress)
            except psycopg.errors.DiskFull as error:
                raise ServiceUnavailableError(
                    f"PostgreSQL has not enough space to build the index of a generation: {error}"
                ) from error


def cancel_builds(tx: Transaction, generation: int) -> None:
    """End the build of a worker that lost its lease; writers would wait for it."""
    tx.rows(
        "select pg_cancel_backend(pid) from pg_stat_progress_create_index where relid = to_regclass(:table)",
        table=own_table(generation),
    )


def can_be_served(tx: Transaction, generation: int) -> bool:
    """Whether nothing is left to do before a generation is searched."""
    row = tx.row("select storage, step from generations where id = :id", id=generation)
    return row is not None and row["step"] is None and (row["storage"] == "shared" or has_index(tx, generation))


def has_index(tx: Transaction, generation: int) -> bool:
    """Whether the own table of a generation can be searched by its indexes."""
    return bool(
        tx.value(
            """
            select (select count(*) from pg_index
                where indexrelid in (to_regclass(:words), to_regclass(:vectors)) and indisvalid)
              >= (select case when dimensions is null then 1 else 2 end from generations where id = :id)
            """,
            id=generation,
            words=_words_index(generation),
            vectors=_index(generation),
        )
    )


def _index(generation: int) -> str:
    return f"{own_table(generation)}_embedding"


def _words_index(generation: int) -> str:
    return f"{own_table(generation)}_words"


def _build(
    database: Database,
    connection: psycopg.Connection[Any],
    statements: Sequence[str],
    generation: int,
    check: Callable[[], None],
    progress: Callable[[], None],
) -> None:
    for statement in statements:
        try:
            _watched(database, connection, statement, check, progress)
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
            log.info("index_built_by_another", generation=generation)  # the backend of a worker that is gone


def _settings(connection: psycopg.Connection[Any], *, rows: int, dimensions: int | None, memory_mb: int) -> None:
    needed_mb = int(1.3 * rows * (2 * (dimensions or 0) + 300) / 1_048_576) + 1
    memory_mb = min(memory_mb, max(needed_mb, BUILD_MEMORY_MIN_MB))
    connection.execute(f"set maintenance_work_mem = '{memory_mb:d}MB'".encode())
    connection.execute(f"set max_parallel_maintenance_workers = {BUILD_WORKERS:d}".encode())
    connection.execute("set statement_timeout = 0")
    try:
        # The build ends soon after its worker was killed.
        connection.execute("set client_connection_check_interval = '1s'")
    except psycopg.DatabaseError:
        log.debug("client_connection_check_interval_unknown")


def _watched(
    database: Database,
    connection: psycopg.Connection[Any],
    statement: str,
    check: Callable[[], None],
    progress: Callable[[], None],
) -> None:
    """Run a long statement in a thread; tell when it moved, cancel it when the work must stop."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            connection.execute(statement.encode())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread that waits
            failures.append(error)

    thread = threading.Thread(target=run, name="index-build", daemon=True)
    thread.start()
    seen: object = None
    look_at = time.monotonic() + PROGRESS_S
    try:
        while thread.is_alive():
            thread.join(LOOK_S)
            check()
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + PROGRESS_S
                moved = _progress_of(database, connection.info.backend_pid)
                if moved != seen:
                    seen = moved
                    progress()
    except BaseException:
        while thread.is_alive():
            with contextlib.suppress(psycopg.Error):  # a connection that is gone ends the thread, too
                connection.cancel_safe(timeout=5)
            thread.join(LOOK_S)
        raise
    if failures:
        raise failures[0]
    progress()


def _progress_of(database: Database, pid: int) -> object:
    with database.transaction() as tx:
        return [
            tuple(row.values())
            for row in tx.rows(
                """
                select phase, blocks_done as done, tuples_done as tuples from pg_stat_progress_create_index
                where pid = :pid
                union all
                select phase, heap_blks_scanned, heap_blks_vacuumed from pg_stat_progress_vacuum where pid = :pid
                """,
                pid=pid,
            )
        ]


def _drop(database: Database, generation: int, key: int | None) -> bool:
    try:
        with database.transaction() as tx:
            if key is not None:  # or the table may come into use again between the look and the drop
                tx.rows(f"select pg_advisory_xact_lock_shared({COLLECTION_LOCK}, :key)", key=key)
            if tx.value(
                "select exists (select from generations where id = :id and (storage = 'own' or step = 'to_own'))",
                id=generation,
            ):
                return False
            tx.run(f"set local lock_timeout = '{DROP_LOCK_TIMEOUT_MS}ms'")
            try:
                tx.run(f"drop table {own_table(generation)}")
            except DBAPIError as error:
                if isinstance(error.orig, psycopg.errors.LockNotAvailable | psycopg.errors.UndefinedTable):
                    raise _BusyError from error
                raise
    except _BusyError:
        log.info("table_dropped_later", generation=generation)
        return False
    log.info("table_dropped", generation=generation)
    return True


class _BusyError(Exception):
    """Someone else is at it."""
