"""A database from before passages had words (schema 0003), brought to this version."""

from __future__ import annotations

import psycopg
import pytest
from alembic import command
from sqlalchemy import create_engine, make_url

from knowledge_worker import Knowledge, NotSearchableError
from knowledge_worker.store.postgres.migrate import _config, migrate
from knowledge_worker.testing.provider import ScriptedProvider

from .conftest import Make, declared, indexed, made_texts, names

SMALL, LARGE = made_texts(40, seed=1), made_texts(120, seed=2)
QUERY = "red apple by the river"
COLLECTIONS = ("small", "large", "notes")


@pytest.fixture
def before(make: Make, database_url: str) -> dict[str, list[tuple[str, float]]]:
    """What a search by meaning found in each collection, before the database went back to schema 0003."""
    knowledge = indexed(make, declared("small", SMALL), declared("large", LARGE), own_table_chunks=50)
    knowledge.create_collection("notes")
    for name, text in list(SMALL.items())[:10]:
        knowledge.put_document("notes", name, text, metadata={"team": "sales"})
    assert knowledge.run_pass("notes") == "ok"
    found = {name: by_meaning(knowledge, name) for name in COLLECTIONS}
    knowledge.node_stopped()
    knowledge.close()
    downgrade(database_url, "0003")
    with psycopg.connect(database_url, autocommit=True) as connection:
        # The fingerprints of that version had no language in them.
        connection.execute("update collections set declaration = 'of an older version' where kind = 'declared'")
        assert _columns(connection, "chunks").isdisjoint({"words", "word_count"})
        assert "language" not in _columns(connection, "collections")
    return found


def by_meaning(knowledge: Knowledge, name: str) -> list[tuple[str, float]]:
    result = knowledge.search(QUERY, collections=name, mode="semantic", top_k=20)
    return [(match.document, match.score) for match in result.matches]


def downgrade(url: str, revision: str) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
    engine.dispose()


def _columns(connection: psycopg.Connection, table: str) -> set[str]:
    rows = connection.execute("select column_name from information_schema.columns where table_name = %s", [table])
    return {row[0] for row in rows.fetchall()}


def test_what_was_embedded_is_found_by_meaning_at_once_and_by_words_after_a_pass(
    make: Make, database_url: str, provider: ScriptedProvider, before: dict[str, list[tuple[str, float]]]
) -> None:
    assert migrate(database_url) != "0003"
    knowledge = make(declared("small", SMALL), declared("large", LARGE), own_table_chunks=50)
    embedded = {text: provider.embedded[text] for text in (*SMALL.values(), *LARGE.values())}
    for name in COLLECTIONS:
        assert by_meaning(knowledge, name) == before[name]
        hybrid = knowledge.search(QUERY, collections=name, top_k=20)
        assert [(match.document, match.score) for match in hybrid.matches] == before[name]
        assert {match.score_kind for match in hybrid.matches} == {"cosine"}
        with pytest.raises(NotSearchableError, match="before its next pass"):
            knowledge.search(QUERY, collections=name, mode="lexical")
    filtered = knowledge.search(QUERY, collections="notes", filters={"metadata": {"team": "sales"}}, top_k=20)
    assert len(filtered.matches) == 10

    knowledge.node_started(["sync"])
    knowledge.sync("notes")
    for name in COLLECTIONS:
        assert knowledge.plan(name).passages == 0
        assert knowledge.run_pass(name) == "ok"
    assert {text: provider.embedded[text] for text in embedded} == embedded, "nothing is embedded again"
    for name in COLLECTIONS:
        assert by_meaning(knowledge, name) == before[name]
        lexical = knowledge.search(QUERY, collections=name, mode="lexical", top_k=20)
        assert {match.score_kind for match in lexical.matches} == {"bm25"}
        assert len(lexical.matches) >= 5
        assert {match.score_kind for match in knowledge.search(QUERY, collections=name).matches} == {"fused"}


def test_a_document_written_before_the_first_pass_is_found(make: Make, database_url: str, before: object) -> None:
    migrate(database_url)
    knowledge = make(declared("small", SMALL), declared("large", LARGE), own_table_chunks=50)
    knowledge.put_document("notes", "new", "a zebra crossing")
    assert knowledge.run_pass("notes") == "ok"
    assert names(knowledge.search("zebra crossing", collections="notes"))[0] == "new"
    knowledge.delete_document("notes", "new")
    assert "new" not in names(knowledge.search("zebra crossing", collections="notes", top_k=20))
