"""Alembic's entry: the connection is handed over by :mod:`knowledge_worker.store.postgres.migrate`."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=None,
    version_table="knowledge_schema",
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
