"""Connections: one engine a process, library errors made ours, the server checked once."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import psycopg
from sqlalchemy import Connection, Engine, RowMapping, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from knowledge_worker.errors import ConfigurationError, KnowledgeError, ServerUnusableError, ServiceUnavailableError
from knowledge_worker.ports import Clock

POSTGRES_MIN_VERSION: Final = 15
PGVECTOR_MIN_VERSION: Final = (0, 8)
IDLE_IN_TRANSACTION_TIMEOUT_MS: Final = 30_000
"""A worker stopped inside a transaction holds its locks no longer than this (it then finds its session ended)."""

TRUSTED_S: Final = 0.2
"""A connection used so lately is not asked whether it is alive: no server restarts in less."""
_USED_AT: Final = "used_at"

NOW: Final = "coalesce(cast(:now as timestamptz), clock_timestamp())"
"""The time every due decision uses: the database's, so that replicas agree; a test's clock passes ``now``."""


_OWN_TABLE: Final = re.compile(r"\bchunks_\d+\b")


class TableGoneError(ServiceUnavailableError):
    """A generation's own table was dropped between the look at where its chunks are and the look at the chunks."""


class DeadlockError(ServiceUnavailableError):
    """Two transactions waited for each other and this one was ended; the same again can succeed."""


class Database:
    """A pool of connections to one PostgreSQL.

    Args:
        url: ``postgresql://user:password@host:port/name``; a driver in it is replaced by psycopg.
        pool_size: connections kept and used at once by this process.
        clock: replaces the database's clock, for tests.
    """

    def __init__(self, url: str, *, pool_size: int = 10, clock: Clock | None = None) -> None:
        self._clock = clock
        self.engine = _engine(url, pool_size)
        self._reading = self.engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def transaction(self) -> Generator[Transaction]:
        """One transaction: committed at the end, rolled back on any error.

        Raises:
            ServiceUnavailableError: the server does not answer or closed the connection.
        """
        with _translated(), self.engine.begin() as connection:
            yield Transaction(connection, self._now())

    @contextmanager
    def reading(self) -> Generator[Transaction]:
        """Statements that each see the newest state, without the round trips that begin and end a transaction.

        Raises:
            ServiceUnavailableError: the server does not answer or closed the connection.
        """
        with _translated(), self._reading.connect() as connection:
            yield Transaction(connection, self._now())

    @contextmanager
    def session(self) -> Generator[Session]:
        """One connection kept over several transactions, for temporary tables."""
        with _translated(), self.engine.connect() as connection:
            yield Session(connection, self._now)

    @contextmanager
    def maintenance(self) -> Generator[psycopg.Connection[Any]]:
        """A connection outside of any transaction that is closed afterwards, for statements that take long."""
        with _translated():
            pooled = self.engine.raw_connection()
            connection = cast("psycopg.Connection[Any]", pooled.driver_connection)
            pooled.detach()
            try:
                connection.autocommit = True
                yield connection
            finally:
                connection.close()

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()

    def _now(self) -> object:
        return self._clock() if self._clock else None


class Transaction:
    """What a step may do inside its transaction; every statement may use ``:now``."""

    def __init__(self, connection: Connection, now: object) -> None:
        self._connection = connection
        self._now = now

    def rows(self, sql: str, **values: Any) -> Sequence[RowMapping]:
        """Run a statement and return its rows."""
        return self._connection.execute(text(sql), {"now": self._now, **values}).mappings().all()

    def tuples(self, sql: str, **values: Any) -> Sequence[tuple[Any, ...]]:
        """The same as :meth:`rows`, each row the driver's plain tuple: a fraction of the cost where there are many."""
        with self._connection.execute(text(sql), {"now": self._now, **values}) as result:
            return cast("list[tuple[Any, ...]]", result.cursor.fetchall()) if result.cursor is not None else []

    def row(self, sql: str, **values: Any) -> RowMapping | None:
        """Run a statement that returns at most one row."""
        return self._connection.execute(text(sql), {"now": self._now, **values}).mappings().one_or_none()

    def value(self, sql: str, **values: Any) -> Any:
        """Run a statement and return the first column of its first row, or None."""
        return self._connection.execute(text(sql), {"now": self._now, **values}).scalar()

    def run(self, sql: str, **values: Any) -> int:
        """Run a statement and return how many rows it touched."""
        return self._connection.execute(text(sql), {"now": self._now, **values}).rowcount

    @property
    def driver(self) -> psycopg.Connection[Any]:
        """The psycopg connection, for COPY."""
        return cast("psycopg.Connection[Any]", self._connection.connection.driver_connection)


class Session:
    """A connection over several transactions."""

    def __init__(self, connection: Connection, now: Any) -> None:
        self._connection = connection
        self._now = now

    @contextmanager
    def transaction(self) -> Generator[Transaction]:
        """The same as :meth:`Database.transaction`, on this connection."""
        with _translated(), self._connection.begin():
            yield Transaction(self._connection, self._now())


def check_server(url: str) -> None:
    """Connect once and say in one line what makes the server unusable.

    Raises:
        ServiceUnavailableError: it does not answer.
        ServerUnusableError: it is too old, or pgvector is missing or too old.
    """
    engine = _engine(url, 1)
    try:
        with _translated(), engine.connect() as connection:
            version = int(cast("str", connection.execute(text("show server_version_num")).scalar()))
            if version < POSTGRES_MIN_VERSION * 10_000:
                raise ServerUnusableError(
                    f"PostgreSQL {version // 10_000} is too old: {POSTGRES_MIN_VERSION} or newer is needed."
                )
            row = connection.execute(
                text(
                    "select coalesce(installed_version, default_version) from pg_available_extensions "
                    "where name = 'vector'"
                )
            ).scalar()
            if row is None:
                raise ServerUnusableError(
                    "This PostgreSQL has no pgvector: install pgvector 0.8 or newer on the server (extension vector)."
                )
            numbers = tuple(int(part) for part in str(row).split(".")[:2] if part.isdigit())
            if numbers < PGVECTOR_MIN_VERSION:
                raise ServerUnusableError(
                    f"pgvector {row} is too old: 0.8 or newer is needed; update it on the server, "
                    "then run: ALTER EXTENSION vector UPDATE."
                )
    finally:
        engine.dispose()


def shown_address(url: str) -> str:
    """Host, port and database of ``url``, without user and password."""
    parts = make_url(url)
    host = parts.query.get("host") or parts.host or "localhost"
    return f"{host}:{parts.port or 5432}/{parts.database or ''}"


def _engine(url: str, pool_size: int) -> Engine:
    try:
        parts = make_url(url)
    except ArgumentError:
        raise ConfigurationError(
            "KNOWLEDGE_DATABASE_URL is no database address: postgresql://user:password@host:5432/name is expected."
        ) from None
    if parts.get_backend_name() not in ("postgresql", "postgres"):
        raise ConfigurationError(
            f"KNOWLEDGE_DATABASE_URL names {parts.get_backend_name()}: only postgresql:// addresses are possible."
        )
    engine = create_engine(
        parts.set(drivername="postgresql+psycopg"),
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_recycle=1800,
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        connect_args={"connect_timeout": 5, "application_name": "knowledge-worker"},
    )
    event.listen(engine, "connect", _prepare_connection)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", _check_alive)
    return engine


def _prepare_connection(connection: psycopg.Connection[Any], _record: object) -> None:
    autocommit, connection.autocommit = connection.autocommit, True
    try:
        connection.execute(
            "select set_config('idle_in_transaction_session_timeout', %s, false)", [str(IDLE_IN_TRANSACTION_TIMEOUT_MS)]
        )
    finally:
        connection.autocommit = autocommit


def _note_use(_connection: object, record: ConnectionPoolEntry) -> None:
    record.info[_USED_AT] = time.monotonic()


def _check_alive(connection: psycopg.Connection[Any], record: ConnectionPoolEntry, _proxy: object) -> None:
    used_at = record.info.get(_USED_AT)
    if used_at is None or time.monotonic() - used_at < TRUSTED_S:
        return
    try:
        autocommit, connection.autocommit = connection.autocommit, True
        connection.execute("")
        connection.autocommit = autocommit
    except psycopg.Error as error:
        raise InvalidatePoolError from error  # the pool opens another one


@contextmanager
def _translated() -> Generator[None]:
    """Errors of the libraries become ours where they have a meaning; no other one shows what is stored."""
    try:
        yield
    except KnowledgeError:
        raise
    except DBAPIError as error:
        original = error.orig
        if isinstance(original, psycopg.errors.UndefinedTable) and _OWN_TABLE.search(str(original)):
            raise TableGoneError("The passages moved while they were read; try again.") from error
        if isinstance(original, psycopg.errors.DeadlockDetected):
            raise DeadlockError("Two writers waited for each other; try again.") from error
        if isinstance(original, psycopg.errors.UndefinedTable):
            raise ServiceUnavailableError(
                "The database has no tables of this version yet: run `knowledge-worker migrate`."
            ) from error
        if error.connection_invalidated or isinstance(original, psycopg.OperationalError | psycopg.InterfaceError):
            raise ServiceUnavailableError(f"PostgreSQL does not answer: {_first_line(original)}") from error
        _forget_rows(error)
        if original is not None:
            _forget_rows(original)
        raise
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise ServiceUnavailableError(f"PostgreSQL does not answer: {_first_line(error)}") from error
    except psycopg.Error as error:
        _forget_rows(error)
        raise


def _forget_rows(error: BaseException) -> None:
    """Keep the first line of an error: DETAIL and CONTEXT below it show whole rows."""
    error.args = (_first_line(error.args[0] if error.args else ""),)


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
