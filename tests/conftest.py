"""Real servers for the tests: one PostgreSQL and one Valkey a test process, a database a test."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from knowledge_worker.domain.limits import Limits
from knowledge_worker.embedded.servers import start_servers
from knowledge_worker.store.postgres import PostgresStore
from knowledge_worker.store.postgres.migrate import migrate
from knowledge_worker.testing.provider import ScriptedProvider


@dataclass(frozen=True)
class TestServers:
    """Addresses of the servers of this test process."""

    __test__ = False

    database_url: str
    redis_url: str


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def servers() -> Iterator[TestServers]:
    """PostgreSQL and Valkey: those named in the environment, else embedded ones."""
    given = os.environ.get("TEST_DATABASE_URL"), os.environ.get("TEST_REDIS_URL")
    if given[0] and given[1]:
        yield TestServers(given[0], given[1])
        return
    with tempfile.TemporaryDirectory(prefix="kw-test-") as folder:
        started = start_servers(Path(folder) / "data")
        try:
            yield TestServers(started.database_url, started.redis_url)
        finally:
            started.stop()


@pytest.fixture(scope="session")
def template(servers: TestServers) -> str:
    """A migrated database that tests copy."""
    return _create_database(servers.database_url, f"template_{os.getpid()}", None, migrated=True)


@pytest.fixture
def database_url(servers: TestServers, template: str) -> Iterator[str]:
    """A migrated database of this test's own."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    yield _create_database(servers.database_url, name, make_url(template).database, migrated=False)
    with (
        psycopg.connect(servers.database_url, autocommit=True) as connection,
        contextlib.suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectInUse),  # autovacuum is at it
    ):
        connection.execute(f"drop database if exists {name} with (force)")  # type: ignore[call-overload]


@pytest.fixture
def store(database_url: str) -> Iterator[PostgresStore]:
    """A store with short waits."""
    store = PostgresStore(database_url, limits=Limits())
    yield store
    store.close()


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    """An embedding server that counts and scripts its answers."""
    with ScriptedProvider() as provider:
        yield provider


def _create_database(server: str, name: str, template: str | None, *, migrated: bool) -> str:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"create database {name}" + (f" template {template}" if template else ""))  # type: ignore[call-overload]
    url = make_url(server).set(database=name).render_as_string(hide_password=False)
    if migrated:
        migrate(url)
    return url
