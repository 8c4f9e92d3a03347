"""The store on PostgreSQL with pgvector: every row that must not be lost, and every line of SQL."""

from __future__ import annotations

from knowledge_worker.domain.limits import Limits
from knowledge_worker.ports import Clock
from knowledge_worker.store.postgres import migrate as _migrate
from knowledge_worker.store.postgres.chunks import PostgresChunks
from knowledge_worker.store.postgres.collections import PostgresCollections
from knowledge_worker.store.postgres.database import Database
from knowledge_worker.store.postgres.documents import PostgresDocuments
from knowledge_worker.store.postgres.generations import PostgresGenerations
from knowledge_worker.store.postgres.health import PostgresHealth
from knowledge_worker.store.postgres.leases import PostgresLeases
from knowledge_worker.store.postgres.managed import PostgresManaged
from knowledge_worker.store.postgres.passes import PostgresPasses

__all__ = ["PostgresStore"]


class PostgresStore:
    """Opens connections when they are first needed.

    Args:
        url: ``postgresql://…``.
        pool_size: connections this process keeps.
        clock: replaces the database's clock, for tests.
    """

    def __init__(self, url: str, *, limits: Limits, pool_size: int = 10, clock: Clock | None = None) -> None:
        self._url = url
        self.database = Database(url, pool_size=pool_size, clock=clock)
        self.collections = PostgresCollections(self.database)
        self.leases = PostgresLeases(self.database, limits)
        self.documents = PostgresDocuments(self.database, limits)
        self.generations = PostgresGenerations(self.database, limits)
        self.managed = PostgresManaged(self.database)
        self.passes = PostgresPasses(self.database)
        self.chunks = PostgresChunks(self.database, limits)
        self.health = PostgresHealth(self.database, limits)

    def migrate(self) -> str:
        return _migrate.migrate(self._url)

    def close(self) -> None:
        self.database.close()
