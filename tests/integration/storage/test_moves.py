"""A generation moves between the shared table and its own, while searches and writes go on."""

from __future__ import annotations

import threading

import psycopg
import pytest

from knowledge_worker.domain.collection import ChunkStorage
from knowledge_worker.errors import LeaseLostError, PassCancelledError
from knowledge_worker.store.postgres import moves, own_tables
from knowledge_worker.store.protocol import Guard

from .conftest import Index, numbered, zebras


def test_a_large_first_generation_is_built_in_its_own_table(index: Index) -> None:
    lease = index.acquire()
    generation = index.begin(lease)
    index.put(lease.guard, **numbered(0, 120))
    index.write(lease.guard, generation)

    assert index.tables() == [f"chunks_{generation.id}"], "it moved while it was built"
    with index.store.database.transaction() as tx:
        assert not own_tables.has_index(tx, generation.id), "load first, then index"
    assert not index.end(lease, generation), "it is not served without its index"
    index.fit(lease.guard, generation)
    assert index.end(lease, generation)

    index.check(ChunkStorage.OWN)
    with index.store.database.transaction() as tx:
        assert own_tables.has_index(tx, generation.id)


def test_a_small_generation_stays_in_the_shared_table(index: Index) -> None:
    index.run(**numbered(0, 50))
    index.check(ChunkStorage.SHARED)


def test_a_served_generation_grows_and_shrinks_and_no_search_misses_anything(index: Index) -> None:
    index.run(**zebras(), **numbered(0, 30))
    index.check(ChunkStorage.SHARED)
    with index.searched():
        index.run(**numbered(30, 100))
        index.check(ChunkStorage.OWN)
        lease = index.acquire()
        generation = index.begin(lease)
        index.delete_others(lease.guard, *zebras())
        index.fit(lease.guard, generation)
        assert index.end(lease, generation)
        index.check(ChunkStorage.SHARED)
        index.run(**numbered(0, 200))
        index.check(ChunkStorage.OWN)


def test_between_the_thresholds_nothing_moves(index: Index) -> None:
    index.run(**numbered(0, 40))
    index.check(ChunkStorage.SHARED)
    index.run(**numbered(40, 60))
    index.check(ChunkStorage.OWN)
    lease = index.acquire()
    generation = index.begin(lease)
    index.delete_others(lease.guard, *numbered(0, 25))
    index.fit(lease.guard, generation)
    assert index.end(lease, generation)
    index.check(ChunkStorage.OWN)


def grown(index: Index) -> Guard:
    """A served generation that is about to move to its own table; the guard of the pass."""
    index.run(**zebras(), **numbered(0, 30))
    lease = index.acquire()
    index.begin(lease)
    index.put(lease.guard, **numbered(30, 100))
    index.write(lease.guard, index.serving)
    return lease.guard


def test_writes_during_a_move_are_not_lost(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = grown(index)
    build = moves.build_index

    def write_meanwhile(*args, **kwargs) -> None:
        index.put(guard, d5="changed during the move", new="added during the move")
        index.write(guard, index.serving)
        index.delete_others(guard, *(one for one in index.expected if one not in {"d7", "d8"}))
        assert index.found() == index.expected, "the writes can be found at once"
        build(*args, **kwargs)
        index.put(guard, **{f"late{n}": f"late document {n}" for n in range(45)}, d9="changed again")
        index.write(guard, index.serving)

    monkeypatch.setattr(moves, "build_index", write_meanwhile)
    with index.searched():
        index.fit(guard, index.serving)
    index.check(ChunkStorage.OWN)
    assert index.expected["d9"] == "changed again"
    assert "d7" not in index.expected


def test_writes_during_a_move_back_are_not_lost(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.run(**zebras(), **numbered(0, 60))
    lease = index.acquire()
    index.begin(lease)
    index.delete_others(lease.guard, *zebras(), *numbered(0, 5))
    finish = moves.StorageMoves._finish

    def write_meanwhile(self, *args) -> None:
        index.put(lease.guard, d1="changed during the move", new="added during the move")
        index.write(lease.guard, index.serving)
        index.delete_others(lease.guard, *(one for one in index.expected if one != "d2"))
        assert index.found() == index.expected
        finish(self, *args)

    monkeypatch.setattr(moves.StorageMoves, "_finish", write_meanwhile)
    with index.searched():
        index.fit(lease.guard, index.serving)
    index.check(ChunkStorage.SHARED)


def test_moves_forth_and_back_under_constant_writes_lose_nothing(index: Index) -> None:
    index.run(**zebras(), **numbered(0, 40))
    lease = index.acquire()
    generation = index.begin(lease)
    storage_moves = index.store.generations._moves
    stop = threading.Event()
    failures: list[BaseException] = []
    written = 0

    def write() -> None:
        nonlocal written
        try:
            while not stop.is_set():
                changed = {f"d{(7 * written + n) % 60}": f"version {written} of a text" for n in range(5)}
                index.put(lease.guard, **changed)
                index.write(lease.guard, generation)
                written += 1
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with index.searched():
            for _ in range(12):
                storage_moves._up, storage_moves._down = 10, 0
                index.fit(lease.guard, generation)
                assert index.serving.storage is ChunkStorage.OWN
                storage_moves._up = storage_moves._down = 10_000
                index.fit(lease.guard, generation)
                assert index.serving.storage is ChunkStorage.SHARED
    finally:
        stop.set()
        writer.join()
    assert not failures
    assert written >= 10
    index.check(ChunkStorage.SHARED)


def test_writes_while_a_new_generation_is_indexed_do_not_wait_and_are_not_lost(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = index.acquire()
    generation = index.begin(lease)
    index.put(lease.guard, **numbered(0, 120))
    index.write(lease.guard, generation)
    build = moves.build_index

    def write_meanwhile(*args, **kwargs) -> None:
        with psycopg.connect(index.store._url) as indexing:
            # What CREATE INDEX holds for minutes: whoever wrote to the table now would wait for it.
            indexing.execute(f"lock table chunks_{generation.id} in share mode")
            index.put(lease.guard, d5="changed meanwhile", new="added meanwhile")
            index.write(lease.guard, generation)
            index.delete_others(lease.guard, *(one for one in index.expected if one != "d7"))
            assert set(index.store.generations.kept_hashes(generation, range(1000))) >= {1, 2, 3}
        build(*args, **kwargs)

    monkeypatch.setattr(moves, "build_index", write_meanwhile)
    index.fit(lease.guard, generation)
    assert index.end(lease, generation)
    index.check(ChunkStorage.OWN)


class _KilledError(Exception):
    pass


def killed(*_args, **_kwargs) -> None:
    raise _KilledError


def _killed_after(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    real = getattr(owner, name)

    def call(*args, **kwargs) -> None:
        real(*args, **kwargs)
        raise _KilledError

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize("step", ["_begin", "_copy", "_index", "_finish"])
def test_a_move_to_an_own_table_killed_after_any_step_is_done_by_the_next_pass(
    index: Index, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    guard = grown(index)
    with monkeypatch.context() as patched:
        _killed_after(patched, moves.StorageMoves, step)
        with pytest.raises(_KilledError):
            index.fit(guard, index.serving)
    assert index.found() == index.expected

    index.run(d1="changed by the next pass")

    index.check(ChunkStorage.OWN)


@pytest.mark.parametrize("step", ["_begin", "_copy", "_finish"])
def test_a_move_to_the_shared_table_killed_after_any_step_is_done_by_the_next_pass(
    index: Index, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    index.run(**numbered(0, 60))
    lease = index.acquire()
    index.begin(lease)
    index.delete_others(lease.guard, *numbered(0, 10))
    with monkeypatch.context() as patched:
        _killed_after(patched, moves.StorageMoves, step)
        with pytest.raises(_KilledError):
            index.fit(lease.guard, index.serving)
    assert index.found() == index.expected

    index.run(d1="changed by the next pass")

    index.check(ChunkStorage.SHARED)


def test_indexing_of_a_new_generation_killed_loses_no_embedded_passage(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = index.acquire()
    generation = index.begin(lease)
    index.put(lease.guard, **numbered(0, 120))
    index.write(lease.guard, generation)

    def write_and_die(*_args, **_kwargs) -> None:
        index.put(lease.guard, d5="changed meanwhile", new="added meanwhile")
        index.write(lease.guard, generation)
        raise _KilledError

    with monkeypatch.context() as patched:
        patched.setattr(moves, "build_index", write_and_die)
        with pytest.raises(_KilledError):
            index.fit(lease.guard, generation)

    lease = index.acquire()
    assert index.begin(lease) == index.collection.building
    assert index.store.documents.unsettled(lease.guard.key, generation) == 0, "nothing has to be embedded again"
    index.fit(lease.guard, generation)
    assert index.end(lease, generation)
    index.check(ChunkStorage.OWN)


def test_a_worker_that_lost_its_lease_stops_in_the_middle_of_a_move(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = grown(index)
    build = moves.build_index

    def lose(*args, **kwargs) -> None:
        build(*args, **kwargs)
        monkeypatch.undo()
        index.run(d1="changed by the new holder")
        index.check(ChunkStorage.OWN)

    monkeypatch.setattr(moves, "build_index", lose)
    with pytest.raises(LeaseLostError):
        index.fit(guard, index.serving)
    index.check(ChunkStorage.OWN)


def test_a_stop_cancels_a_build_that_runs(index: Index) -> None:
    index.run(**numbered(0, 60))
    generation = index.serving
    with index.store.database.transaction() as tx:
        tx.run(f"drop index chunks_{generation.id}_embedding")
    blocked = threading.Event()

    def check() -> None:
        with index.store.database.transaction() as tx:
            if tx.value("select exists (select from pg_stat_activity where query like 'create index if not exists%')"):
                blocked.set()
                raise PassCancelledError("The worker was asked to stop.")

    with psycopg.connect(index.store._url) as writer:
        # The build waits for this transaction, for as long as it likes.
        writer.execute(f"lock table chunks_{generation.id} in row exclusive mode")
        with pytest.raises(PassCancelledError):
            own_tables.build_index(
                index.store.database,
                generation.id,
                rows=60,
                dimensions=64,
                memory_mb=64,
                check=check,
                progress=lambda: None,
            )
    assert blocked.is_set()
    with index.store.database.transaction() as tx:
        assert not own_tables.has_index(tx, generation.id)
        assert not tx.value(
            "select exists (select from pg_stat_activity where query like 'create index%' and state = 'active')"
        )
    assert index.found() == index.expected, "without an index it is scanned"


def test_a_full_shared_memory_costs_the_parallel_workers_not_the_index(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = own_tables._watched
    seen: list[str] = []

    def full(database, connection, statement, check, progress) -> None:
        workers = connection.execute("show max_parallel_maintenance_workers").fetchone()[0]
        if "using hnsw" in statement:
            seen.append(workers)
            if workers != "0":
                raise psycopg.errors.DiskFull("could not resize shared memory segment")
        watched(database, connection, statement, check, progress)

    monkeypatch.setattr(own_tables, "_watched", full)
    index.run(**numbered(0, 60))
    assert seen == ["1", "0"]
    index.check(ChunkStorage.OWN)
