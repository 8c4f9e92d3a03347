"""Passages are found by their words, too; a collection may have no model."""

from alembic import op
from sqlalchemy import text

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

STATEMENTS = (
    "alter table collections add column language text not null default 'simple'",
    # Generations from before have no words: theirs is '', which no collection asks for, so that the next pass
    # writes a new one; it takes over their vectors and calls no provider.
    """
    alter table generations
      add column language text not null default '',
      add column counted_chunks integer not null default 0,
      add column mean_words real not null default 0
    """,
    # Words that many passages of a generation have, and in how many of the counted ones.
    """
    create table common_words (
      generation_id bigint not null references generations on delete cascade,
      word text not null,
      chunks integer not null,
      primary key (generation_id, word)
    )
    """,
    "create index documents_metadata on documents using gin (metadata jsonb_path_ops)",
)

COLUMNS = """
    add column words tsvector,
    add column word_count integer not null default 0,
    alter column embedding drop not null,
    alter column words set storage main
"""


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
    for table in ("chunks", *_own_tables()):
        op.execute(f"alter table {table} {COLUMNS}")


def downgrade() -> None:
    for table in ("chunks", *_own_tables()):
        op.execute(f"delete from {table} where embedding is null")
        op.execute(f"alter table {table} drop column words, drop column word_count, alter embedding set not null")
    op.execute("drop index documents_metadata")
    op.execute("drop table common_words")
    op.execute("alter table generations drop column language, drop column counted_chunks, drop column mean_words")
    op.execute("alter table collections drop column language")


def _own_tables() -> list[str]:
    rows = op.get_bind().execute(
        text("select 'chunks_' || id from generations where to_regclass('chunks_' || id) is not null")
    )
    return [row[0] for row in rows]
