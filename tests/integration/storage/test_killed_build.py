"""A worker is killed while PostgreSQL builds an index for it."""

from __future__ import annotations

import subprocess
import sys
import time

import psycopg

from knowledge_worker.domain.collection import ChunkStorage

from .conftest import Index, numbered

BUILD = """
import sys
from knowledge_worker.store.postgres.database import Database
from knowledge_worker.store.postgres.own_tables import build_index
build_index(Database(sys.argv[1]), int(sys.argv[2]), rows=60, dimensions=64, memory_mb=64,
            check=lambda: None, progress=lambda: None)
"""


def test_the_build_of_a_killed_worker_ends_and_the_next_one_builds(index: Index) -> None:
    index.run(**numbered(0, 60))
    generation = index.serving
    with index.store.database.transaction() as tx:
        tx.run(f"drop index chunks_{generation.id}_embedding")

    def building() -> bool:
        with index.store.database.transaction() as tx:
            return tx.value(
                "select exists (select from pg_stat_activity where query like 'create index%' and state = 'active')"
            )

    def wait_until(state: bool) -> None:
        until = time.monotonic() + 60
        while building() is not state:
            assert time.monotonic() < until
            time.sleep(0.1)

    with psycopg.connect(index.store._url) as writer:
        writer.execute(f"lock table chunks_{generation.id} in row exclusive mode")
        worker = subprocess.Popen([sys.executable, "-c", BUILD, index.store._url, str(generation.id)])
        wait_until(True)
        worker.kill()
        worker.wait()
        wait_until(False)

    index.run(d1="changed by the next pass")
    index.check(ChunkStorage.OWN)
