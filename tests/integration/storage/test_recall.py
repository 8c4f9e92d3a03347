"""Searches by index against exact ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import psycopg
import pytest

from knowledge_worker.domain.collection import ChunkStorage
from knowledge_worker.domain.ranking import Fusion
from knowledge_worker.ports import Vectors
from knowledge_worker.store.postgres.ranking import Statement
from knowledge_worker.store.protocol import SearchTarget

from .conftest import DIMENSIONS, Index, numbered

COUNT = 3000


def clustered(texts: Sequence[str]) -> Vectors:
    """Vectors in 60 clusters, the same for the same text."""
    rows = []
    for text in texts:
        number = int(text.split()[-1])
        centre = np.random.default_rng(number % 60).normal(size=DIMENSIONS)
        rows.append(centre + 0.7 * np.random.default_rng(10_000 + number).normal(size=DIMENSIONS))
    vectors = np.asarray(rows, np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def index_preferred(database_url: str) -> None:
    """Three thousand short passages are few enough for PostgreSQL to scan them; here it may not."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = connection.info.dbname
        for setting in ("enable_seqscan", "enable_bitmapscan", "enable_indexonlyscan"):
            connection.execute(f"alter database {name} set {setting} = off")


@pytest.mark.usefixtures("index_preferred")
def test_an_index_finds_what_an_exact_search_finds(index: Index) -> None:
    index.embed = clustered
    index.run(**numbered(0, COUNT))
    assert index.serving.storage is ChunkStorage.OWN
    stored = clustered(list(index.expected.values())).astype(np.float16).astype(np.float32)
    names = np.asarray(list(index.expected))
    right = 0
    for number in range(COUNT, COUNT + 100):
        query = f"query {number}"
        exact = set(names[np.argsort(-(stored @ clustered([query])[0]))[:10]])
        matches = index.search(query, 10)
        assert len(matches) == 10
        assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)
        right += len(exact & {match.document for match in matches})
    assert right / 1000 >= 0.97
    assert f"Index Scan using chunks_{index.serving.id}_embedding" in plan(index)


def plan(index: Index) -> str:
    """How PostgreSQL runs the search of the collection."""
    target = SearchTarget(key=index.collection.key, name=index.name, trusted=True, generation=index.serving)
    statement = Statement(
        targets=[target], semantic=True, words=None, fusion=Fusion(), candidates=100, limit=10, per_document=3
    )
    with index.store.database.transaction() as tx:
        rows = tx.rows(
            "explain " + statement.sql(),
            query=str(index.embed(["query 1"])[0].tolist()),
            keys=[target.key],
        )
    return "\n".join(row["QUERY PLAN"] for row in rows)


@pytest.mark.usefixtures("index_preferred")
def test_as_many_results_as_an_exact_search_when_most_rows_are_dead(index: Index) -> None:
    index.run(**numbered(0, 300))
    lease = index.acquire()
    generation = index.begin(lease)
    with index.store.database.transaction() as tx:
        tx.run(f"alter table chunks_{generation.id} set (autovacuum_enabled = false)")
    index.delete_others(lease.guard, *numbered(100, 130))
    matches = index.search("plain text of document 7", 20)
    assert len(matches) == 20
    assert {match.document for match in matches} <= set(index.expected)
    assert len(index.search("plain text of document 7", 100)) == 30
