"""Bring a database to the schema of this version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from knowledge_worker.errors import ConfigurationError, ServerUnusableError
from knowledge_worker.store.postgres.database import Database, check_server

if TYPE_CHECKING:
    from alembic.config import Config

_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_VERSION_TABLE: Final = "knowledge_schema"

_LOCK: Final = 7_415_231_902
"""Advisory lock of a migration; any number nobody else uses."""


# Alembic is imported when migrating only: it would be a fifth of the start of every other process.


def newest_revision() -> str:
    """The schema revision this version of the code needs: that of the last file in ``migrations/versions``."""
    return max(path.name for path in (_MIGRATIONS / "versions").glob("[0-9]*_*.py")).partition("_")[0]


def current_revision(database: Database) -> str | None:
    """The schema revision the database has, None before the first migration."""
    with database.transaction() as tx:
        if tx.value(f"select to_regclass('{_VERSION_TABLE}')") is None:
            return None
        return tx.value(f"select version_num from {_VERSION_TABLE}")


def migrate(url: str) -> str:
    """Run what is missing; several processes may do so at once.

    Returns:
        The revision the database is at afterwards.

    Raises:
        ServerUnusableError: the server is too old, lacks pgvector, or refuses to create it.
        ConfigurationError: the database was made by a newer version than this one.
    """
    from alembic import command
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    check_server(url)
    database = Database(url, pool_size=1)
    config = _config()
    try:
        with database.engine.begin() as connection:
            connection.execute(text("set local idle_in_transaction_session_timeout = 0"))
            connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            context = MigrationContext.configure(connection, opts={"version_table": _VERSION_TABLE})
            before = context.get_current_revision()
            known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
            if before is not None and before not in known:
                raise ConfigurationError(
                    f"The database is at schema {before}, which this version does not know: install a newer version."
                )
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except ProgrammingError as error:
        if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
            raise ServerUnusableError(
                "The database user may not create what is needed: let an administrator run "
                "CREATE EXTENSION vector and grant CREATE on the schema, then migrate again."
            ) from error
        raise
    finally:
        database.close()
    return newest_revision()


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config
