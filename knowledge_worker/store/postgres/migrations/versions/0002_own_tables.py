"""Large generations get a table of their own, ``chunks_<generation id>``."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    alter table generations
      add column storage text not null default 'shared' check (storage in ('shared', 'own')),
      add column step text check (step in ('to_own', 'to_shared', 'indexing'))
    """,
    # Documents whose chunks changed while their generation moves between tables.
    """
    create table chunk_changes (
      generation_id bigint not null references generations on delete cascade,
      document_id bigint not null,
      primary key (generation_id, document_id)
    )
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    op.execute("drop table chunk_changes")
    op.execute("alter table generations drop column storage, drop column step")
