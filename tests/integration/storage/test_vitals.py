"""The statements behind readiness and metrics, on a real database."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from knowledge_worker.domain.limits import Limits
from knowledge_worker.errors import ServiceUnavailableError
from knowledge_worker.store.postgres import PostgresStore, health

from .conftest import Index, numbered

INSERT = "insert into collections (name, kind, model{more}) values (%s, %s, 'm'{values}) returning id"
DOCUMENT = """
    insert into documents (collection_id, document_id, content, chars, hash, details_hash, metadata_hash, status,
      updated_at, claim_token, claim_until)
    values (%s, %s, '', 0, '', '', '', %s, now() - %s * interval '1 second', %s, now() - %s * interval '1 second')
"""


@pytest.fixture
def database(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def collection(database: psycopg.Connection, name: str, kind: str = "managed", **values: str) -> int:
    more, given = "".join(f", {column}" for column in values), "".join(f", {value}" for value in values.values())
    row = database.execute(INSERT.format(more=more, values=given), [name, kind]).fetchone()  # type: ignore[call-overload]
    assert row is not None
    return int(row[0])


def document(
    database: psycopg.Connection,
    key: int,
    name: str,
    status: str = "pending",
    *,
    age: int = 0,
    expired: int | None = None,
) -> None:
    token = None if expired is None else "dead"
    database.execute(DOCUMENT, [key, name, status, age, token, expired])


def test_before_anything_ran_there_was_no_tick(store: PostgresStore) -> None:
    pulse = store.health.pulse(alive_ms=1000)
    assert (pulse.tick_age_ms, pulse.stuck_claims, pulse.workers) == (None, 0, 0)
    assert store.health.collections(most=5, others="_others") == []
    assert store.health.documents(most=5, others="_others") == []
    assert store.health.passages(most=5, others="_others") == {}


def test_a_tick_is_recorded_where_nothing_is_lost(store: PostgresStore, database: psycopg.Connection) -> None:
    store.leases.tick()
    database.execute("update heartbeats set at = at - interval '90 seconds'")
    age_ms = store.health.pulse(alive_ms=1000).tick_age_ms
    assert age_ms is not None
    assert 90_000 <= age_ms < 150_000


def test_only_a_claim_that_nothing_holds_up_is_stuck(store: PostgresStore, database: psycopg.Connection) -> None:
    claim_s = Limits().claim_ms // 1000
    plain = collection(database, "plain")
    document(database, plain, "waits", expired=2 * claim_s)
    document(database, plain, "just-now", expired=1)
    document(database, plain, "nobody-has-it")
    for name, values in {
        "on-backoff": {"retry_at": "now() + interval '1 minute'"},
        "at-work": {"holder": "'h'", "lease_until": "now() + interval '1 minute'"},
        "broken": {"broken": "true"},
        "orphaned": {"orphaned": "true"},
    }.items():
        document(database, collection(database, name, **values), "d", expired=2 * claim_s)
    assert store.health.pulse(alive_ms=1000).stuck_claims == 1


def test_collections_beyond_the_bound_are_told_together_and_declared_ones_first(
    store: PostgresStore, database: psycopg.Connection
) -> None:
    old, new = "now() - interval '2 hours'", "now()"
    keys = [
        collection(database, "m1", synced_at=new, failures="1", retry_at=new),
        collection(database, "m2", synced_at=old, failures="3", retry_at=old),
        collection(database, "m3", synced_at=new, broken="true"),
        collection(database, "declared", "declared", resync_ms="60000", sync_requested="2", sync_done="1"),
    ]
    for number, key in enumerate(keys):
        document(database, key, "p", age=100 * number)
        document(database, key, "r", "ready")
        document(database, key, "f", "failed")
    document(database, keys[0], "older", age=5000)

    found = {one.name: one for one in store.health.collections(most=2, others="_others")}
    assert set(found) == {"declared", "m1", "_others"}
    assert (found["declared"].resync_ms, found["declared"].requests, found["declared"].synced_at) == (60_000, 1, None)
    others = found["_others"]
    assert (others.collections, others.failures, others.failing, others.broken) == (2, 3, 1, 1)
    assert others.synced_at is not None
    assert others.synced_at < found["m1"].synced_at, "the earliest of them"

    documents = {one.name: one for one in store.health.documents(most=2, others="_others")}
    assert (documents["_others"].pending, documents["_others"].ready, documents["_others"].failed) == (2, 2, 2)
    assert (documents["m1"].pending, documents["declared"].pending) == (2, 1)
    assert documents["declared"].pending_since < documents["_others"].pending_since
    assert documents["m1"].pending_since < documents["declared"].pending_since, "the oldest of two"


def test_passages_are_those_that_are_served_whichever_table_holds_them(small_store: PostgresStore) -> None:
    for name, count in {"empty": 0, "small": 3, "large": 60, "other": 2}.items():
        index = Index(small_store, name)
        if count:
            index.run(**numbered(0, count))
        if name == "small":
            lease = index.acquire()
            index.write(lease.guard, index.begin(lease, "another-model"))
    assert small_store.health.passages(most=9, others="_others") == {"empty": 0, "small": 3, "large": 60, "other": 2}
    assert small_store.health.passages(most=2, others="_others") == {"empty": 0, "small": 3, "_others": 62}


def test_documents_are_not_counted_for_longer_than_is_allowed(
    store: PostgresStore, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "STATEMENT_TIMEOUT_MS", 50)
    document(database, collection(database, "docs"), "d")
    database.execute("begin")
    database.execute("lock table documents in access exclusive mode")
    try:
        with pytest.raises(ServiceUnavailableError, match="statement timeout"):
            store.health.documents(most=2, others="_others")
    finally:
        database.execute("rollback")
    assert [one.pending for one in store.health.documents(most=2, others="_others")] == [1]
