"""Pages of documents of one status are found in an index, in the order they are listed in."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("create index documents_listed on documents (collection_id, status, document_id)")
    op.execute("drop index documents_status")


def downgrade() -> None:
    op.execute("create index documents_status on documents (collection_id, status)")
    op.execute("drop index documents_listed")
