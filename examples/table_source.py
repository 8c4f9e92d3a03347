"""A table that your team maintains, read by keyset pages: however large, it never sits in memory at once.

An OFFSET would skip rows when others are deleted meanwhile, and a skipped row is a deleted document.

    FAQ_DATABASE_URL=sqlite:///faq.db knowledge-worker up --app examples.table_source:knowledge
"""

import os
from collections.abc import Iterator

from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, inspect, select

from knowledge_worker import ConfigurationError, Knowledge, KnowledgeCollection, SourceContext, define_knowledge_source

PAGE_ROWS = 500
DATABASE_URL = os.environ.get("FAQ_DATABASE_URL", "sqlite:///faq.db")

faq_table = Table(
    "faq",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("question", Text, nullable=False),
    Column("answer", Text, nullable=False),
)


def check_faq() -> None:
    if not inspect(create_engine(DATABASE_URL)).has_table("faq"):
        raise ConfigurationError("The database of FAQ_DATABASE_URL has no table faq: create it or correct the URL.")


@define_knowledge_source(kind="faq", check=check_faq)
def faq(context: SourceContext) -> Iterator[dict[str, object]]:
    engine = create_engine(DATABASE_URL)
    try:
        last_id: int | None = None
        while not context.cancelled:
            page = select(faq_table).order_by(faq_table.c.id).limit(PAGE_ROWS)
            if last_id is not None:
                page = page.where(faq_table.c.id > last_id)
            # A connection a page: while the documents are stored, no transaction stays open on this database.
            with engine.connect() as connection:
                rows = connection.execute(page).all()
            if not rows:
                return
            for row in rows:
                content = f"{row.question}\n\n{row.answer}"
                yield {"id": f"faq-{row.id}", "title": row.question, "content": content}
            last_id = rows[-1].id
        context.raise_if_cancelled()  # a read that stopped early is no smaller table
    finally:
        engine.dispose()


knowledge = Knowledge(
    collections=[KnowledgeCollection("faq", model="local/wordllama", sources=[faq], resync_ms=3_600_000)]
)
