"""What clients send reaches PostgreSQL as values only, and comes back as it was sent."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError
from starlette.testclient import TestClient

from knowledge_worker import Knowledge, create_app
from knowledge_worker.store.postgres.database import Database
from knowledge_worker.store.postgres.placement import own_table

TOKEN = "a-token-for-tests-0123456789"
SECRET = "the secret recipe"
HOSTILE = [
    "'; drop table documents; --", "''", "\\'; --", "$$; drop table chunks; $$", "\" or 1=1 --", "%s %(key)s %%",
    ":key ::int :now", "{1,2}", "\\copy x", "E'\\x27'", "1) union select value from pg_settings --", "a\u0027b\u02bcc",
    "{\"a\": 1}", "[null]", "NULL", "\\\\", "/* */", "x\ty\r\nz", "_%", "chunks_1; --",
]  # fmt: skip


def tables(database_url: str) -> list[str]:
    with psycopg.connect(database_url) as connection:
        found = connection.execute("select table_name from information_schema.tables where table_schema = 'public'")
        return sorted(name for (name,) in found)


@pytest.fixture
def knowledge(make: Callable[..., Knowledge]) -> Knowledge:
    knowledge = make(tokens=json.dumps([{"value": TOKEN, "id": "t", "permissions": ["knowledge:*"]}]))
    knowledge.create_collection("notes")
    knowledge.run_pass("notes")
    return knowledge


@pytest.fixture
def client(knowledge: Knowledge) -> TestClient:
    return TestClient(create_app(knowledge), headers={"Authorization": f"Bearer {TOKEN}"})


def test_every_text_of_a_document_comes_back_as_it_was_sent(
    knowledge: Knowledge, client: TestClient, database_url: str
) -> None:
    before = tables(database_url)
    for text in HOSTILE:
        answer = client.put(
            f"/knowledge/collections/notes/documents/{quote(text, safe='')}",
            json={"content": f"river {text}", "title": text, "source": text, "metadata": {text: text, "list": [text]}},
        )
        assert answer.status_code == 202, (text, answer.text)
    assert knowledge.run_pass("notes") == "ok"

    for text in HOSTILE:
        stored = client.get(f"/knowledge/collections/notes/documents/{quote(text, safe='')}").json()
        assert (stored["id"], stored["content"], stored["title"]) == (text, f"river {text}", text)
        assert (stored["source"], stored["metadata"], stored["status"]) == (text, {text: text, "list": [text]}, "ready")
        for filters in ({"idPrefix": text}, {"source": text}, {"metadata": {text: text}}, {"metadata": {text: [text]}}):
            found = client.post("/knowledge/search", json={"query": text, "topK": 20, "filters": filters}).json()
            assert text in [match["document"] for match in found["matches"]], (text, filters, found)
    assert tables(database_url) == before

    for text in HOSTILE:
        assert client.delete(f"/knowledge/collections/notes/documents/{quote(text, safe='')}").status_code == 204
    assert client.get("/knowledge/collections/notes/documents").json()["data"] == []


def test_names_and_parameters_that_are_no_values_of_theirs_are_refused(client: TestClient, database_url: str) -> None:
    before = tables(database_url)
    for text in HOSTILE:
        shown = quote(text, safe="")
        refused = [
            client.post("/knowledge/collections", json={"name": text}),
            client.post("/knowledge/collections", json={"name": "other", "language": text}),
            client.get(f"/knowledge/collections/notes/documents?status={shown}"),
            client.get(f"/knowledge/collections/notes/documents?limit={shown}"),
            client.get(f"/knowledge/collections/notes/documents?offset={shown}"),
            client.get(f"/knowledge/search?q=x&mode={shown}"),
            client.get(f"/knowledge/search?q=x&topK={shown}"),
        ]
        assert [answer.status_code for answer in refused] == [400] * len(refused), text
        assert client.get(f"/knowledge/collections/{shown}").status_code in (400, 404)
        assert client.get(f"/knowledge/search?q=x&collection={shown}").status_code in (400, 404)
    assert tables(database_url) == before


def test_the_name_of_a_table_is_made_of_a_number_and_nothing_else() -> None:
    assert own_table(12) == "chunks_12"
    with pytest.raises(ValueError):
        own_table("1; drop table documents")  # type: ignore[arg-type]


@pytest.fixture
def database(database_url: str) -> Any:
    database = Database(database_url)
    yield database
    database.close()


@pytest.mark.parametrize(
    "statement",
    [
        "insert into t values (null, :content)",
        "insert into t values (1, :content), (1, :content)",
        "select cast(:content as text) from absent",
    ],
)
def test_an_error_of_the_database_shows_no_value(database: Database, statement: str) -> None:
    """PostgreSQL puts the row into DETAIL, SQLAlchemy the parameters below the statement."""
    with pytest.raises(Exception) as caught, database.transaction() as tx:  # noqa: PT012 - the last one raises
        tx.run("create temporary table t (n int primary key, content text)")
        tx.run(statement, content=SECRET)

    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_an_error_of_the_database_still_says_what_was_wrong(database: Database) -> None:
    with pytest.raises(DBAPIError, match="null value in column") as caught, database.transaction() as tx:  # noqa: PT012
        tx.run("create temporary table t (n int primary key, content text)")
        tx.run("insert into t values (null, :content)", content=SECRET)

    assert isinstance(caught.value.orig, psycopg.errors.NotNullViolation)


def test_an_error_of_the_driver_shows_no_value(database: Database) -> None:
    with pytest.raises(psycopg.errors.NotNullViolation) as caught, database.transaction() as tx:  # noqa: PT012
        tx.driver.execute("create temporary table t (n int primary key, content text)")
        tx.driver.execute("insert into t values (null, %s)", [SECRET])

    assert SECRET not in "".join(traceback.format_exception(caught.value))
