"""Whether the database can be used, and the few statements that say how everything is doing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from knowledge_worker.domain.limits import Limits
from knowledge_worker.domain.vitals import CollectionVitals, DocumentVitals, Pulse
from knowledge_worker.errors import KnowledgeError
from knowledge_worker.store.postgres import migrate as _migrate
from knowledge_worker.store.postgres.database import NOW, Database, Transaction
from knowledge_worker.store.postgres.placement import OWN_TABLE_PREFIX
from knowledge_worker.store.protocol import Health

STATEMENT_TIMEOUT_MS: Final = 3_000
"""Whoever watches does not load the database: a count that takes longer is not made."""
PENDING_LOOKED_AT: Final = 10_000
"""Pending documents of a collection whose age is looked at."""

_NAMED: Final = """
    named as (
      select c.*, case when row_number() over (order by c.kind, c.id) <= :most then c.name else :others end as label
      from collections c)
"""
"""Declared collections first: they are few, and alarms are set for them."""


class PostgresHealth(Health):
    """Reachable, at this version's schema, and alive."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits

    def problems(self) -> list[str]:
        try:
            current = _migrate.current_revision(self._database)
        except KnowledgeError as error:
            return [f"database: {error.message}"]
        newest = _migrate.newest_revision()
        if current == newest:
            return []
        return [
            f"migrations: the database is at schema {current or 'none'}, this version needs {newest}: "
            "run `knowledge-worker migrate`"
        ]

    def pulse(self, *, alive_ms: int) -> Pulse:
        with self._bounded() as tx:
            row = tx.row(
                f"""
                select h.at as ticked_at, round(1000 * extract(epoch from {NOW} - h.at)) as tick_age_ms,
                  (select count(*) from nodes where seen_at >= {NOW} - :alive * interval '1 millisecond') as workers,
                  (select count(*) from documents d join collections c on c.id = d.collection_id
                   where d.claim_token is not null and d.claim_until < {NOW} - :claim * interval '1 millisecond'
                     and (c.holder is null or c.lease_until < {NOW}) and not c.broken and not c.orphaned
                     and coalesce(c.retry_at < {NOW} - :claim * interval '1 millisecond', true)) as stuck_claims
                from (values (1)) as one left join heartbeats h on h.name = 'tick'
                """,
                alive=alive_ms,
                claim=self._limits.claim_ms,
            )
        assert row is not None
        return Pulse(**row)

    def collections(self, *, most: int, others: str) -> list[CollectionVitals]:
        with self._bounded() as tx:
            rows = tx.rows(
                f"""
                with {_NAMED}
                select label as name, count(*) as collections, max(resync_ms) as resync_ms, max(retry_at) as retry_at,
                  case when bool_and(synced_at is not null) then min(synced_at) end as synced_at,
                  max(failures) as failures, count(*) filter (where failures > 0) as failing,
                  count(*) filter (where broken) as broken, count(*) filter (where holder is not null) as running,
                  sum(sync_requested - sync_done) as requests
                from named group by label
                """,
                most=most,
                others=others,
            )
        return [CollectionVitals(**row) for row in rows]

    def documents(self, *, most: int, others: str) -> list[DocumentVitals]:
        with self._bounded() as tx:
            rows = tx.rows(
                f"""
                with {_NAMED}, counted as (
                  select collection_id, status, count(*) as documents from documents group by 1, 2)
                select n.label as name,
                  coalesce(sum(k.documents) filter (where k.status = 'pending'), 0) as pending,
                  coalesce(sum(k.documents) filter (where k.status = 'ready'), 0) as ready,
                  coalesce(sum(k.documents) filter (where k.status = 'failed'), 0) as failed,
                  min(case when k.status = 'pending' then (
                    select min(d.updated_at) from (
                      select updated_at from documents
                      where collection_id = n.id and status = 'pending' limit {PENDING_LOOKED_AT:d}) d) end)
                  as pending_since
                from named n left join counted k on k.collection_id = n.id group by n.label
                """,
                most=most,
                others=others,
            )
        return [DocumentVitals(**row) for row in rows]

    def passages(self, *, most: int, others: str) -> dict[str, int]:
        # Counting the rows of a large table takes seconds; the planner's number is renewed by every vacuum.
        with self._bounded() as tx:
            rows = tx.rows(
                f"""
                with {_NAMED}, shared as (select generation_id, count(*) as chunks from chunks group by 1)
                select n.label as name, cast(coalesce(sum(
                    case when g.storage = 'own' then greatest(t.reltuples, 0) else s.chunks end
                  ), 0) as bigint) as passages
                from named n left join generations g on g.id = n.serving
                left join shared s on s.generation_id = g.id
                left join pg_class t on t.oid = to_regclass('{OWN_TABLE_PREFIX}' || g.id)
                group by n.label
                """,
                most=most,
                others=others,
            )
        return {row["name"]: row["passages"] for row in rows}

    @contextmanager
    def _bounded(self) -> Generator[Transaction]:
        """Statements that are given up when they take long."""
        with self._database.transaction() as tx:
            tx.run(f"set local statement_timeout = {STATEMENT_TIMEOUT_MS:d}")
            yield tx
