"""Documents: the comparison of a read with what is stored, and claims on those that wait to be embedded."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from knowledge_worker.domain.collection import Generation
from knowledge_worker.domain.document import CheckedDocument, FailedDocument
from knowledge_worker.domain.limits import Limits
from knowledge_worker.domain.passes import PassCounts
from knowledge_worker.store.postgres.database import NOW, Database, Session, Transaction
from knowledge_worker.store.postgres.incoming import (
    Incoming,
    insert_documents,
    relabel_documents,
    replace_documents,
)
from knowledge_worker.store.postgres.leases import check_guard
from knowledge_worker.store.postgres.placement import forget_deleted, places_of
from knowledge_worker.store.protocol import ClaimedDocument, Compared, DocumentStore, Guard, Reading, StoredDocument

_IN_INDEX_ORDER: Final = """
    set local enable_bitmapscan = off; set local enable_seqscan = off; set local enable_sort = off
"""
"""For a statement that takes the first rows of an index. As long as a table that grew fast is not analysed, PostgreSQL
takes it for almost empty and would read and sort all that waits, for each claim."""


class PostgresDocuments(DocumentStore):
    """A row with ``settled_<slot>`` below a generation's id waits to be embedded in it: the table is the queue."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits

    def retry_failed(self, guard: Guard) -> int:
        with self._database.transaction() as tx:
            check_guard(tx, guard)
            return tx.run(
                f"""
                update documents set status = 'pending', error = null, settled_0 = 0, settled_1 = 0, deaths = 0,
                  updated_at = {NOW}
                where id in (
                  select id from documents where collection_id = :key and status = 'failed' order by id for update)
                """,
                key=guard.key,
            )

    @contextmanager
    def reading(self, guard: Guard) -> Generator[Reading]:
        with self._database.session() as session:
            with session.transaction() as tx:
                tx.run("create temporary table if not exists seen (id bigint primary key, owner text not null)")
                tx.run("truncate seen")
                last = tx.value("select coalesce(max(id), 0) from documents where collection_id = :key", key=guard.key)
            yield PostgresReading(session, guard, last_id=last)

    def claim(
        self, guard: Guard, generation: Generation, *, token: str, limit: int, max_chars: int, alone: bool
    ) -> list[ClaimedDocument]:
        settled = f"settled_{generation.slot}"
        with self._database.transaction() as tx:
            tx.run(_IN_INDEX_ORDER)
            rows = tx.rows(
                f"""
                with free as materialized (
                  select id, {settled} as settled, chars from documents
                  where collection_id = :key and {settled} < :generation
                    and coalesce(claim_until < {NOW}, true)
                    and (deaths > 0 or claim_until is not null) = :alone
                    and exists (select from collections where id = :key and fence = :fence and holder = :holder
                      and (helpers_open or not :helper))
                  order by {settled}, id limit :limit for update skip locked
                ), picked as (
                  select id from (
                    select id, coalesce(sum(chars) over (order by settled, id
                      rows between unbounded preceding and 1 preceding), 0) before from free
                  ) f where before < :max_chars
                )
                update documents d set claim_token = :token,
                  claim_until = {NOW} + :claim * interval '1 millisecond',
                  deaths = deaths + case when claim_until is null then 0 else 1 end
                from picked where d.id = picked.id
                returning d.id, d.document_id, d.version, d.content, d.title, d.source, d.deaths
                """,
                key=guard.key,
                fence=guard.fence,
                holder=guard.holder,
                helper=guard.helper,
                generation=generation.id,
                limit=1 if alone else limit,
                max_chars=max_chars,
                alone=alone,
                token=token,
                claim=self._limits.claim_ms,
            )
        return sorted((ClaimedDocument(**row) for row in rows), key=lambda document: document.id)

    def stored(self, key: int, generation: Generation | None, ids: Sequence[str]) -> Mapping[str, StoredDocument]:
        settled = "false" if generation is None else f"settled_{generation.slot} >= {generation.id}"
        with self._database.transaction() as tx:
            rows = tx.rows(
                f"""
                select document_id, id as key, hash, details_hash, metadata_hash, owner, {settled} as settled
                from documents where collection_id = :key and document_id = any(:ids)
                """,
                key=key,
                ids=list(ids),
            )
        return {
            row["document_id"]: StoredDocument(**{name: row[name] for name in row if name != "document_id"})
            for row in rows
        }

    def waiting(self, key: int, generation: Generation | None, *, after: int, limit: int) -> list[ClaimedDocument]:
        waits = "true" if generation is None else f"settled_{generation.slot} < {generation.id}"
        with self._database.transaction() as tx:
            rows = tx.rows(
                f"""
                select id, document_id, version, content, title, source, deaths from documents
                where collection_id = :key and id > :after and {waits} order by id limit :limit
                """,
                key=key,
                after=after,
                limit=limit,
            )
        return [ClaimedDocument(**row) for row in rows]

    def list_failed(self, name: str, *, limit: int) -> list[FailedDocument]:
        with self._database.transaction() as tx:
            rows = tx.rows(
                """
                select d.document_id as id, coalesce(d.error, '') as error
                from documents d join collections c on c.id = d.collection_id
                where c.name = :name and d.status = 'failed' order by d.document_id limit :limit
                """,
                name=name,
                limit=limit,
            )
        return [FailedDocument(**row) for row in rows]

    def count(self, key: int) -> int:
        with self._database.transaction() as tx:
            return tx.value("select count(*) from documents where collection_id = :key", key=key)

    def unsettled(self, key: int, generation: Generation) -> int:
        with self._database.transaction() as tx:
            return tx.value(
                f"""
                select count(*) from documents
                where collection_id = :key and settled_{generation.slot} < :generation
                """,
                key=key,
                generation=generation.id,
            )


class PostgresReading(Reading):
    """Keeps the keys of seen documents, each with the source that yielded it last, in a temporary table."""

    def __init__(self, session: Session, guard: Guard, *, last_id: int) -> None:
        self._session = session
        self._guard = guard
        self._last_id = last_id

    def store(self, owner: str, documents: Sequence[CheckedDocument], *, kept_owners: frozenset[str]) -> Compared:
        first: dict[str, CheckedDocument] = {}
        repeated = [one.id for one in documents if first.setdefault(one.id, one) is not one]
        unchanged = 0
        new: list[Incoming] = []
        changed: list[Incoming] = []
        relabelled: list[Incoming] = []
        with self._session.transaction() as tx:
            stored = self._see(tx, owner, list(first))
            for identifier, document in first.items():
                row = stored.get(identifier)
                if row is None:
                    new.append((owner, document))
                    continue
                _, hash_, details_hash, metadata_hash, stored_owner, seen_by = row
                if seen_by == owner:
                    repeated.append(identifier)
                elif seen_by is not None or (stored_owner != owner and stored_owner in kept_owners):
                    continue
                elif hash_ != document.hash or details_hash != document.details_hash:
                    changed.append((owner, document))
                elif metadata_hash != document.metadata_hash or stored_owner != owner:
                    relabelled.append((owner, document))
                else:
                    unchanged += 1
            if new or changed or relabelled:
                check_guard(tx, self._guard)
                added = insert_documents(tx, self._guard.key, new).values()
                tx.run("insert into seen select unnest(cast(:ids as bigint[])), :owner", ids=list(added), owner=owner)
                replace_documents(tx, self._guard.key, changed)
                relabel_documents(tx, self._guard.key, relabelled)
        counts = PassCounts(added=len(new), changed=len(changed) + len(relabelled), unchanged=unchanged)
        return Compared(counts=counts, repeated=tuple(repeated))

    def _see(self, tx: Transaction, owner: str, ids: list[str]) -> dict[str, tuple[Any, ...]]:
        """What is stored under ``ids``, and which source had yielded it last before ``owner`` did now."""
        # JSON, since the driver takes twice as long to write an array.
        rows = tx.tuples(
            """
            with found as materialized (
              select d.document_id, d.hash, d.details_hash, d.metadata_hash, d.owner, s.owner as seen_by, d.id
              from documents d left join seen s on s.id = d.id
              where d.collection_id = :key and d.document_id = any(array(select json_array_elements_text(:ids)))
            ), noted as (
              insert into seen (id, owner) select id, :owner from found
              on conflict (id) do update set owner = excluded.owner
            )
            select document_id, hash, details_hash, metadata_hash, owner, seen_by from found
            """,
            key=self._guard.key,
            owner=owner,
            ids=json.dumps(ids),
        )
        return {row[0]: row for row in rows}

    def vanished(self) -> tuple[int, int]:
        with self._session.transaction() as tx:
            tx.run("analyze seen")
            row = tx.row(
                """
                select count(*) as before, count(*) filter (where s.id is null) as unseen
                from documents d left join seen s on s.id = d.id
                where d.collection_id = :key and d.id <= :last
                """,
                key=self._guard.key,
                last=self._last_id,
            )
        assert row is not None
        return row["before"], row["unseen"]

    def delete_vanished(self) -> int:
        with self._session.transaction() as tx:
            check_guard(tx, self._guard)
            return tx.value(
                f"""
                with gone as (
                  delete from documents d where d.collection_id = :key and d.id <= :last
                    and not exists (select from seen s where s.id = d.id) returning d.id
                ) {forget_deleted(places_of(tx, self._guard.key), "gone")}
                select count(*) from gone
                """,
                key=self._guard.key,
                last=self._last_id,
            )
