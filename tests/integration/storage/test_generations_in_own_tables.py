"""What happens to own tables when generations switch, documents vanish and collections go."""

from __future__ import annotations

import psycopg
import pytest

from knowledge_worker.domain.collection import ChunkStorage
from knowledge_worker.store.postgres.own_tables import drop_unused_tables

from ..passes.conftest import Documents, Make, run, started
from .conftest import Index, numbered, zebras


def test_a_switch_between_own_tables_is_one_update_and_drops_the_old_one(index: Index) -> None:
    index.run(**zebras(), **numbered(0, 60))
    old = index.serving
    with index.searched():
        lease = index.acquire()
        new = index.begin(lease, "n")
        index.write(lease.guard, new)
        index.fit(lease.guard, new)
        assert index.tables() == [f"chunks_{old.id}", f"chunks_{new.id}"]
        with index.store.database.transaction() as tx:
            before = tx.value("select xmin::text from generations where id = :id", id=new.id)
        assert index.end(lease, new)
        with index.store.database.transaction() as tx:
            assert tx.value("select xmin::text from generations where id = :id", id=new.id) == before
    assert index.serving.id == new.id
    index.check(ChunkStorage.OWN)


def test_documents_are_deleted_from_every_table_of_their_collection(index: Index) -> None:
    index.run(**numbered(0, 60))
    lease = index.acquire()
    building = index.begin(lease, "n")
    index.write(lease.guard, building)
    assert len(index.tables()) == 2
    index.delete_others(lease.guard, *numbered(0, 40))
    assert index.found() == index.expected
    with index.store.database.transaction() as tx:
        assert tx.value(f"select count(*) from chunks_{building.id}") == 40
    index.fit(lease.guard, building)
    assert index.end(lease, building)
    index.check(ChunkStorage.OWN)


def test_a_table_that_is_searched_is_dropped_later(index: Index) -> None:
    index.run(**numbered(0, 60))
    old = index.serving
    with psycopg.connect(index.store._url) as searching:
        searching.execute(f"select count(*) from chunks_{old.id}")
        index.run("n")
        assert index.tables() == [f"chunks_{old.id}", f"chunks_{index.serving.id}"]
    index.run("n")
    index.check(ChunkStorage.OWN)


def test_a_building_generation_nobody_wants_is_dropped_with_its_table(index: Index) -> None:
    index.run(**numbered(0, 60))
    lease = index.acquire()
    index.write(lease.guard, index.begin(lease, "n"))
    assert len(index.tables()) == 2
    index.run("m")
    index.check(ChunkStorage.OWN)


def test_a_table_of_a_collection_that_is_gone_is_dropped_and_a_foreign_one_is_not(index: Index) -> None:
    index.run(**numbered(0, 60))
    other = Index(index.store, "other")
    other.run(**numbered(0, 60))
    with index.store.database.transaction() as tx:
        tx.run("create table chunks_2024 (id int)")
        tx.run("delete from collections where name = 'docs'")
    assert drop_unused_tables(index.store.database, other.collection.key) == 1
    assert set(other.tables()) == {"chunks_2024", f"chunks_{other.serving.id}"}
    assert other.found() == other.expected


def test_vectors_of_an_own_table_are_kept_when_a_document_changes(index: Index) -> None:
    index.run(**numbered(0, 60))
    lease = index.acquire()
    generation = index.begin(lease)
    index.put(lease.guard, d1="another text")
    claimed = index.claim(lease.guard, generation)
    kept = index.store.generations.kept_vectors(generation, claimed)
    assert [len(hashes) for hashes in kept.values()] == [1]


@pytest.mark.parametrize("count", [30, 200])
def test_a_whole_pass_and_a_re_embedding_in_either_storage(make: Make, count: int) -> None:
    docs = Documents(**numbered(0, count))
    settings = {"own_table_chunks": 50, "shared_table_chunks": 20}
    storage = ChunkStorage.OWN if count > 50 else ChunkStorage.SHARED
    knowledge = started(make(docs.source(), settings=settings))
    assert run(knowledge) == "ok"
    assert knowledge.collection("docs").serving.storage is storage
    new = started(make(docs.source(), model="model-b", settings=settings))
    new.sync("docs")
    assert run(new) == "ok"
    collection = new.collection("docs")
    assert (collection.serving.model, collection.serving.storage) == ("fake/model-b", storage)
    assert (collection.chunks, collection.building) == (count, None)
    for n in (0, count // 2, count - 1):
        assert f"d{n}" in {match.document for match in new.search(f"plain text of document {n}", top_k=20).matches}
