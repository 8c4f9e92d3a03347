"""Collections and the worker nodes that declare them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import RowMapping

from knowledge_worker.domain.collection import ChunkStorage, Collection, DocumentCounts
from knowledge_worker.errors import ConfigurationError
from knowledge_worker.store.postgres.database import NOW, Database, TableGoneError, Transaction
from knowledge_worker.store.postgres.placement import own_table
from knowledge_worker.store.postgres.rows import COLLECTIONS, COUNTS, collection_of
from knowledge_worker.store.protocol import CollectionStore, DeclaredCollection

T = TypeVar("T")

_FORGOTTEN = "1 day"


class PostgresCollections(CollectionStore):
    """One row a collection; the newest declaration that a living node holds is the one that counts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list_all(self) -> list[Collection]:
        return _twice(self._list_all)

    def find(self, name: str, *, counts: bool = True) -> Collection | None:
        return _twice(lambda: self._find(name, counts=counts))

    def _list_all(self) -> list[Collection]:
        with self._database.transaction() as tx:
            rows = tx.rows(f"{COLLECTIONS} order by c.name")
            counts = _counts(tx, [row["id"] for row in rows])
            chunks = _chunks(tx, rows)
        return [collection_of(row, counts.get(row["id"]), chunks.get(row["id"], 0)) for row in rows]

    def _find(self, name: str, *, counts: bool) -> Collection | None:
        with self._database.transaction() as tx:
            row = tx.row(f"{COLLECTIONS} where c.name = :name", name=name)
            if row is None:
                return None
            if not counts:
                return collection_of(row)
            return collection_of(row, _counts(tx, [row["id"]]).get(row["id"]), _chunks(tx, [row]).get(row["id"], 0))

    def ensure_declared(self, declared: DeclaredCollection) -> None:
        with self._database.transaction() as tx:
            if not tx.value("select true from collections where name = :name", name=declared.name):
                _insert(tx, declared)

    def node_started(
        self, node: str, *, queues: Sequence[str], declared: Sequence[DeclaredCollection], age_ms: int, alive_ms: int
    ) -> list[str]:
        asked: list[str] = []
        with self._database.transaction() as tx:
            _register(tx, node, queues, declared)
            for one in sorted(declared, key=lambda item: item.name):
                key = _take_up(tx, node, one, alive_ms=alive_ms, revive=True)
                if key is not None and _ask_for_start(tx, key, one.fingerprint, age_ms):
                    asked.append(one.name)
            _mark_orphans(tx, node, alive_ms)
        return asked

    def node_alive(
        self, node: str, *, queues: Sequence[str], declared: Sequence[DeclaredCollection], alive_ms: int
    ) -> list[str]:
        taken: list[str] = []
        with self._database.transaction() as tx:
            _register(tx, node, queues, declared)
            current = {
                row["name"]: (row["declaration"], row["orphaned"])
                for row in tx.rows(
                    "select name, declaration, orphaned from collections where name = any(:names)",
                    names=[one.name for one in declared],
                )
            }
            for one in sorted(declared, key=lambda item: item.name):
                if current.get(one.name) == (one.fingerprint, False):
                    continue
                key = _take_up(tx, node, one, alive_ms=alive_ms, revive=False)
                if key is not None and _ask_for_start(tx, key, one.fingerprint, 0):
                    taken.append(one.name)
            _mark_orphans(tx, node, alive_ms)
        return taken

    def node_stopped(self, node: str) -> None:
        with self._database.transaction() as tx:
            tx.run("delete from nodes where id = :id", id=node)


def _twice(read: Callable[[], T]) -> T:
    """A table that was counted may have been dropped just now; the second look finds where its chunks went."""
    try:
        return read()
    except TableGoneError:
        return read()


def _counts(tx: Transaction, keys: list[int]) -> dict[int, DocumentCounts]:
    return {
        row["collection_id"]: DocumentCounts(pending=row["pending"], ready=row["ready"], failed=row["failed"])
        for row in tx.rows(COUNTS, keys=keys)
    }


def _chunks(tx: Transaction, rows: Sequence[RowMapping]) -> dict[int, int]:
    """Chunks of the generation that is served, or of the first one while it is written."""
    shown = {row["s_id"] or row["b_id"]: row for row in rows if row["s_id"] or row["b_id"]}
    shared = [one for one, row in shown.items() if (row["s_storage"] or row["b_storage"]) == ChunkStorage.SHARED]
    counts = ["select generation_id, count(*) as chunks from chunks where generation_id = any(:shared) group by 1"]
    counts += [f"select {one:d}, count(*) from {own_table(one)}" for one in shown if one not in shared]
    counted = tx.rows(" union all ".join(counts), shared=shared)
    return {shown[row["generation_id"]]["id"]: row["chunks"] for row in counted}


def _register(tx: Transaction, node: str, queues: Sequence[str], declared: Sequence[DeclaredCollection]) -> None:
    tx.run(
        f"""
        insert into nodes (id, started_at, seen_at, queues, declarations)
        values (:id, {NOW}, {NOW}, :queues, cast(:declarations as jsonb))
        on conflict (id) do update set seen_at = excluded.seen_at
        """,
        id=node,
        queues=list(queues),
        declarations=json.dumps({one.name: one.fingerprint for one in declared}),
    )
    tx.run(f"delete from nodes where seen_at < {NOW} - interval '{_FORGOTTEN}'")


def _insert(tx: Transaction, declared: DeclaredCollection) -> int | None:
    return tx.value(
        f"""
        insert into collections (name, kind, title, description, model, language, declared_trusted, resync_ms,
          declaration, created_at, updated_at)
        values (:name, 'declared', :title, :description, :model, :language, :trusted, :resync_ms, :fingerprint,
          {NOW}, {NOW})
        on conflict (name) do nothing returning id
        """,
        **_values(declared),
    )


def _take_up(tx: Transaction, node: str, declared: DeclaredCollection, *, alive_ms: int, revive: bool) -> int | None:
    """Make a declaration the current one unless a newer one is alive; the key when it is current now.

    Of two declarations the one that was seen first later is newer, so an old worker that restarts in a rolling
    deploy undoes nothing; when the last node that declares the newer one is gone, the older one counts again.
    """
    _insert(tx, declared)
    row = tx.row(
        "select id, kind, declaration from collections where name = :name for update",
        name=declared.name,
    )
    assert row is not None
    if row["kind"] != "declared":
        raise ConfigurationError(
            f'The code declares "{declared.name}", which the store holds as a managed collection: '
            "rename one, or delete the managed one."
        )
    key: int = row["id"]
    tx.run(
        f"""
        insert into declarations (collection_id, fingerprint, first_declared_at)
        values (:key, :fingerprint, {NOW}) on conflict do nothing
        """,
        key=key,
        fingerprint=declared.fingerprint,
    )
    if row["declaration"] != declared.fingerprint and tx.value(
        f"""
        select exists (
          select from declarations mine, declarations current
          where mine.collection_id = :key and mine.fingerprint = :fingerprint
            and current.collection_id = :key and current.fingerprint = :current
            and current.first_declared_at > mine.first_declared_at)
        and exists (
          select from nodes where id <> :node and declarations ->> :name = :current
            and seen_at >= {NOW} - :alive * interval '1 millisecond')
        """,
        key=key,
        fingerprint=declared.fingerprint,
        current=row["declaration"],
        node=node,
        name=declared.name,
        alive=alive_ms,
    ):
        tx.run("update collections set orphaned = false where id = :key and orphaned", key=key)
        return None
    tx.run(
        f"""
        update collections set title = :title, description = :description, model = :model, language = :language,
          resync_ms = :resync_ms, declared_trusted = :trusted, trusted = trusted and :trusted,
          declaration = :fingerprint, orphaned = false,
          broken = broken and not :revive, updated_at = {NOW}
        where id = :key
        """,
        key=key,
        revive=revive or row["declaration"] != declared.fingerprint,
        **_values(declared),
    )
    return key


def _ask_for_start(tx: Transaction, key: int, fingerprint: str, age_ms: int) -> bool:
    """Ask for a pass that no backoff holds up, unless one of this declaration began since the process started."""
    return bool(
        tx.run(
            f"""
            update collections c set sync_requested = sync_requested + 1, force_seq = sync_requested + 1,
              request_trigger = 'start'
            where id = :key and not (sync_requested > sync_done and holder is null and force_seq > sync_done)
              and not exists (select from passes p where p.collection_id = c.id and p.declaration = :fingerprint
                and p.outcome in ('running', 'ok', 'incomplete', 'failed')
                and p.started_at >= {NOW} - :age * interval '1 millisecond')
            """,
            key=key,
            fingerprint=fingerprint,
            age=age_ms,
        )
    )


def _mark_orphans(tx: Transaction, node: str, alive_ms: int) -> None:
    """Mark declared collections that no living node declares; nothing of them is deleted."""
    tx.run(
        f"""
        update collections c set orphaned = true, updated_at = {NOW}
        where c.kind = 'declared' and not c.orphaned and exists (select from nodes where id = :node)
          and not exists (select from nodes n where n.declarations ? c.name
            and (n.id = :node or n.seen_at >= {NOW} - :alive * interval '1 millisecond'))
        """,
        node=node,
        alive=alive_ms,
    )


def _values(declared: DeclaredCollection) -> dict[str, object]:
    return {
        "name": declared.name,
        "title": declared.title,
        "description": declared.description,
        "model": declared.model,
        "language": declared.language,
        "trusted": declared.trusted,
        "resync_ms": declared.resync_ms,
        "fingerprint": declared.fingerprint,
    }
