"""Who works on a collection: requests, what is due, the lease, the fence, and how a pass ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from knowledge_worker.domain.backoff import wait_ms
from knowledge_worker.domain.collection import CollectionKind
from knowledge_worker.domain.limits import Limits
from knowledge_worker.domain.passes import PassTrigger
from knowledge_worker.errors import CollectionNotFoundError, CollectionNotIndexedError, LeaseLostError
from knowledge_worker.store.postgres.database import NOW, Database, Transaction
from knowledge_worker.store.postgres.own_tables import can_be_served
from knowledge_worker.store.postgres.rows import COLLECTION_LOCK, UNSETTLED
from knowledge_worker.store.protocol import Due, Failure, Guard, HelperTicket, Lease, LeaseStore, Success

_UNSETTLED = UNSETTLED.format(now=NOW)

_DUE = f"""
    not c.orphaned and not c.broken and (
      c.force_seq > c.sync_done
      or coalesce(c.retry_at <= {NOW}, true) and (
        c.sync_requested > c.sync_done
        or c.retry_at is not null
        or coalesce(c.synced_at + c.resync_ms * interval '1 millisecond' <= {NOW}, false)
        or {_UNSETTLED}
      )
    )
"""

_TRIGGER = f"""
    case when c.retry_at is not null and c.retry_at <= {NOW} then 'retry'
         when c.sync_requested > c.sync_done then c.request_trigger
         when coalesce(c.synced_at + c.resync_ms * interval '1 millisecond' <= {NOW}, false) then 'interval'
         else 'pending' end
"""


class PostgresLeases(LeaseStore):
    """Requests are counters, the lease is a row, and every write compares the fence."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits

    def request(
        self, name: str, *, trigger: PassTrigger, force: bool, confirm_deletes: bool, managed_model: str | None = None
    ) -> int:
        with self._database.transaction() as tx:
            row = tx.row(
                """
                update collections set sync_requested = sync_requested + 1, request_trigger = :trigger,
                  force_seq = case when :force then sync_requested + 1 else force_seq end,
                  confirm_seq = case when :confirm then sync_requested + 1 else confirm_seq end,
                  model = case when kind = 'managed' then coalesce(:managed_model, model) else model end
                where name = :name and not broken and not orphaned returning sync_requested
                """,
                name=name,
                trigger=trigger,
                force=force,
                confirm=confirm_deletes,
                managed_model=managed_model,
            )
            if row is not None:
                return row["sync_requested"]
            state = tx.row("select broken, error from collections where name = :name", name=name)
        if state is None:
            raise CollectionNotFoundError(name)
        reason = f": {state['error']}" if state["broken"] else ", since no code declares it any more."
        raise CollectionNotIndexedError(f'Knowledge collection "{name}" is not indexed{reason}')

    def tick(self) -> Due:
        with self._database.transaction() as tx:
            reaped = self._reap(tx, None)
            tx.run(
                f"insert into heartbeats (name, at) values ('tick', {NOW}) "
                "on conflict (name) do update set at = excluded.at"
            )
            polled = tx.rows(
                f"""
                update collections set polled_at = {NOW} where kind = 'managed' and not broken and holder is null
                  and coalesce(polled_at + :poll * interval '1 millisecond' <= {NOW}, true)
                  and coalesce(retry_at <= {NOW}, true) returning name
                """,
                poll=self._limits.managed_poll_ms,
            )
            due = tx.rows(f"select c.name from collections c where c.holder is null and {_DUE} order by c.id")
        names = dict.fromkeys([row["name"] for row in due] + [row["name"] for row in polled])
        return Due(names=tuple(names), reaped=reaped)

    def is_due(self, key: int) -> bool:
        with self._database.transaction() as tx:
            return bool(tx.value(f"select {_DUE} and c.holder is null from collections c where c.id = :key", key=key))

    def acquire(self, key: int, *, holder: str, declaration: str | None) -> Lease | None:
        with self._database.transaction() as tx:
            # A look first: the exclusive lock below waits for the writes of a live holder and holds them up.
            if not tx.value(
                f"select {_DUE} and (c.holder is null or c.lease_until < {NOW}) from collections c where c.id = :key",
                key=key,
            ):
                return None
        with self._database.transaction() as tx:
            _lock(tx, key, shared=False)
            self._reap(tx, key)
            row = tx.row(
                f"""
                update collections c set fence = c.fence + 1, holder = :holder,
                  lease_until = {NOW} + :lease * interval '1 millisecond', sync_running = c.sync_requested,
                  helpers_open = false, helper_error = null, updated_at = {NOW}
                from (select id, {_TRIGGER} as trigger from collections c where id = :key) t
                where c.id = :key and t.id = c.id and c.holder is null
                  and (c.kind = 'managed' or c.declaration is not distinct from :declaration) and {_DUE}
                returning c.name, c.kind, c.fence, c.sync_running, c.confirm_seq > c.sync_done as confirmed,
                  c.force_seq > c.sync_done as forced, t.trigger
                """,
                key=key,
                holder=holder,
                lease=self._limits.lease_ms,
                declaration=declaration,
            )
            if row is None:
                return None
            pass_id = tx.value(
                f"""
                insert into passes (collection_id, trigger, started_at, worker, declaration)
                values (:key, :trigger, {NOW}, :holder, :declaration) returning id
                """,
                key=key,
                trigger=row["trigger"],
                holder=holder,
                declaration=declaration,
            )
            tx.run("update collections set pass_id = :pass where id = :key", key=key, **{"pass": pass_id})
        return Lease(
            guard=Guard(key=key, fence=row["fence"], holder=holder),
            name=row["name"],
            kind=CollectionKind(row["kind"]),
            pass_id=pass_id,
            target=row["sync_running"],
            trigger=PassTrigger(row["trigger"]),
            deletes_confirmed=row["confirmed"],
            forced=row["forced"],
        )

    def renew(self, guard: Guard, *, claim_token: str) -> bool:
        with self._database.transaction() as tx:
            kept = tx.run(
                f"""
                update collections set lease_until = {NOW} + :lease * interval '1 millisecond'
                where id = :key and fence = :fence and holder = :holder
                """,
                key=guard.key,
                fence=guard.fence,
                holder=guard.holder,
                lease=self._limits.lease_ms,
            )
            _renew_claims(tx, guard.key, claim_token, self._limits.claim_ms)
        return kept == 1

    def renew_claims(self, key: int, *, claim_token: str) -> None:
        with self._database.transaction() as tx:
            _renew_claims(tx, key, claim_token, self._limits.claim_ms)

    def open_helpers(self, guard: Guard) -> None:
        with self._database.transaction() as tx:
            check_guard(tx, guard)
            tx.run("update collections set helpers_open = true where id = :key", key=guard.key)

    def join(self, name: str) -> HelperTicket | None:
        with self._database.transaction() as tx:
            row = tx.row(
                f"""
                select id, fence, holder, pass_id from collections
                where name = :name and helpers_open and holder is not null and lease_until >= {NOW}
                """,
                name=name,
            )
        if row is None:
            return None
        guard = Guard(key=row["id"], fence=row["fence"], holder=row["holder"], helper=True)
        return HelperTicket(guard=guard, pass_id=row["pass_id"])

    def report_helper_failure(self, guard: Guard, failure: Failure) -> None:
        value = json.dumps({"message": failure.message, "retry_after_ms": failure.retry_after_ms})
        with self._database.transaction() as tx:
            tx.run(
                """
                update collections set helpers_open = false,
                  helper_error = coalesce(helper_error, cast(:failure as jsonb))
                where id = :key and fence = :fence and holder = :holder
                """,
                key=guard.key,
                fence=guard.fence,
                holder=guard.holder,
                failure=value,
            )

    def helper_failure(self, guard: Guard) -> Failure | None:
        with self._database.transaction() as tx:
            value: dict[str, Any] | None = tx.value(
                "select helper_error from collections where id = :key and fence = :fence",
                key=guard.key,
                fence=guard.fence,
            )
        return Failure(**value) if value else None

    def succeed(self, lease: Lease, success: Success) -> bool:
        key = lease.guard.key
        with self._database.transaction() as tx:
            check_guard(tx, lease.guard)
            if success.switch_to is not None:
                slot = tx.value("select slot from generations where id = :id", id=success.switch_to)
                left = tx.value(
                    f"select exists (select from documents where collection_id = :key and settled_{int(slot)} < :id)",
                    key=key,
                    id=success.switch_to,
                )
                if left or not can_be_served(tx, success.switch_to):
                    return False
            tx.run(
                f"""
                update collections set
                  serving = coalesce(:switch_to, serving),
                  building = case when cast(:switch_to as bigint) is null then building end,
                  sync_done = greatest(sync_done, :target), error = null, failures = 0, failed_at = null,
                  retry_at = null, synced_at = {NOW}, incomplete = :incomplete, notice = :notice,
                  trusted = trusted or (declared_trusted and :complete and kind = 'declared'),
                  holder = null, lease_until = null, helpers_open = false, helper_error = null,
                  polled_at = {NOW}, updated_at = {NOW}
                where id = :key
                """,
                key=key,
                switch_to=success.switch_to,
                target=lease.target,
                incomplete=list(success.incomplete),
                notice=success.notice,
                complete=not success.incomplete,
            )
            _end_pass(
                tx,
                lease,
                outcome="incomplete" if success.incomplete else "ok",
                error=None,
                reasons=success.incomplete,
                kept=self._limits.passes_kept,
            )
        return True

    def fail(self, lease: Lease, failure: Failure, *, claim_token: str) -> None:
        with self._database.transaction() as tx:
            check_guard(tx, lease.guard)
            self._store_failure(tx, lease.guard.key, failure, done=lease.target)
            release_claims(tx, lease.guard.key, claim_token)
            _end_pass(
                tx,
                lease,
                outcome="failed",
                error=failure.message,
                reasons=failure.reasons,
                kept=self._limits.passes_kept,
            )

    def give_up(self, lease: Lease, *, claim_token: str, reason: str) -> None:
        with self._database.transaction() as tx:
            check_guard(tx, lease.guard)
            tx.run(
                f"""
                update collections set holder = null, lease_until = null, helpers_open = false, updated_at = {NOW}
                where id = :key
                """,
                key=lease.guard.key,
            )
            release_claims(tx, lease.guard.key, claim_token)
            _end_pass(tx, lease, outcome="cancelled", error=None, reasons=(reason,), kept=self._limits.passes_kept)

    def release_claims(self, key: int, *, claim_token: str) -> None:
        with self._database.transaction() as tx:
            release_claims(tx, key, claim_token)

    def _reap(self, tx: Transaction, key: int | None) -> tuple[str, ...]:
        """Count each lease that ran out as a failure, so that work which kills its worker backs off."""
        rows = tx.rows(
            f"""
            select id, name, holder, pass_id from collections
            where holder is not null and lease_until < {NOW} and (cast(:key as integer) is null or id = :key)
            for update skip locked
            """,
            key=key,
        )
        for row in rows:
            message = "The worker that ran the pass stopped answering; its lease ran out."
            self._store_failure(tx, row["id"], Failure(message=message), done=None)
            tx.run(
                f"""
                update passes set outcome = 'failed', ended_at = {NOW}, error = :error
                where id = :id and outcome = 'running'
                """,
                id=row["pass_id"],
                error=message,
            )
        return tuple(row["name"] for row in rows)

    def _store_failure(self, tx: Transaction, key: int, failure: Failure, *, done: int | None) -> None:
        failures: int = tx.value("select failures + 1 from collections where id = :key", key=key)
        wait = wait_ms(
            failures,
            first_ms=self._limits.retry_ms,
            longest_ms=self._limits.retry_max_ms,
            at_least_ms=failure.retry_after_ms,
        )
        tx.run(
            f"""
            update collections set error = :error, failures = :failures, failed_at = coalesce(failed_at, {NOW}),
              broken = :broken,
              retry_at = case when :broken then null else {NOW} + :wait * interval '1 millisecond' end,
              sync_done = greatest(sync_done, coalesce(cast(:done as bigint), sync_running)),
              incomplete = :reasons,
              holder = null, lease_until = null, helpers_open = false, helper_error = null, updated_at = {NOW}
            where id = :key
            """,
            key=key,
            error=failure.message,
            failures=failures,
            broken=failure.permanent,
            wait=wait,
            done=done,
            reasons=list(failure.reasons),
        )


def check_guard(tx: Transaction, guard: Guard, *, alone: bool = False) -> None:
    """Begin a guarded write: nothing may change hands until this transaction ends.

    Two statements on purpose: one would read the fence in a snapshot taken before it got the lock.

    Args:
        alone: wait for every other guarded write of the collection and hold off new ones until commit.

    Raises:
        LeaseLostError: the lease ran out or another worker took it.
    """
    _lock(tx, guard.key, shared=not alone)
    if guard.helper:
        return
    row = tx.row("select fence, holder from collections where id = :key", key=guard.key)
    if row is None or row["fence"] != guard.fence or row["holder"] != guard.holder:
        raise LeaseLostError("Another worker owns the collection now.")


def share_collection(tx: Transaction, key: int) -> None:
    """Hold off whoever wants the collection alone until commit."""
    _lock(tx, key, shared=True)


def lock_collection(tx: Transaction, key: int) -> None:
    """Wait for every guarded write of the collection to end and hold off new ones until commit."""
    _lock(tx, key, shared=False)


def release_claims(tx: Transaction, key: int, claim_token: str) -> None:
    """Hand back what ``claim_token`` holds, without counting it as a death."""
    tx.run(
        """
        update documents set claim_token = null, claim_until = null where id in (
          select id from documents where collection_id = :key and claim_token = :token order by id for update)
        """,
        key=key,
        token=claim_token,
    )


def _lock(tx: Transaction, key: int, *, shared: bool) -> None:
    function = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
    tx.rows(f"select {function}({COLLECTION_LOCK}, :key)", key=key)


def _renew_claims(tx: Transaction, key: int, claim_token: str, claim_ms: int) -> None:
    tx.run(
        f"""
        update documents set claim_until = {NOW} + :claim * interval '1 millisecond' where id in (
          select id from documents where collection_id = :key and claim_token = :token order by id for update)
        """,
        key=key,
        token=claim_token,
        claim=claim_ms,
    )


def _end_pass(
    tx: Transaction, lease: Lease, *, outcome: str, error: str | None, reasons: Sequence[str], kept: int
) -> None:
    tx.run(
        f"""
        update passes set outcome = :outcome, ended_at = {NOW}, error = :error, reasons = :reasons
        where id = :id
        """,
        id=lease.pass_id,
        outcome=outcome,
        error=error,
        reasons=list(reasons),
    )
    tx.run(
        """
        delete from passes where collection_id = :key and id <=
          (select id from passes where collection_id = :key order by id desc offset :kept limit 1)
        """,
        key=lease.guard.key,
        kept=kept,
    )
