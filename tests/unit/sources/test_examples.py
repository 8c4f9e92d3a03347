"""The examples of sources, run against a real database, a real HTTP server and a real repository."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import create_engine, delete, insert

from knowledge_worker.errors import ConfigurationError, SourceError
from knowledge_worker.sources.reading import SourcesRead, read_sources

if TYPE_CHECKING:
    from .conftest import Repository

EXAMPLES = Path(__file__).parents[3] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(example: ModuleType) -> tuple[list[str], SourcesRead]:
    [collection] = example.knowledge.declared
    collection.check()
    reading = read_sources(collection.sources, collection=collection.name)
    return [document.id for _, document in reading], reading


def test_the_table_is_read_by_pages_and_misses_no_row_when_others_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'faq.db'}"
    monkeypatch.setenv("FAQ_DATABASE_URL", url)
    example = load("table_source")
    with pytest.raises(ConfigurationError, match="no table faq"):
        read(example)
    engine = create_engine(url)
    example.faq_table.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(
            insert(example.faq_table), [{"id": n, "question": f"Q{n}?", "answer": f"A{n}."} for n in range(-3, 1198)]
        )

    ids, reading = read(example)
    assert ids == [f"faq-{n}" for n in range(-3, 1198)]
    assert (reading.skipped, reading.reasons) == (0, ())

    stream = iter(read_sources(example.knowledge.declared[0].sources))
    first = next(stream)[1]
    with engine.begin() as connection:
        connection.execute(delete(example.faq_table).where(example.faq_table.c.id < 400))
    rest = [document.id for _, document in stream]
    engine.dispose()

    assert (first.title, first.content) == ("Q-3?", "Q-3?\n\nA-3.")
    assert [f"faq-{n}" for n in range(400, 1198)] == rest[-798:]


Answer = Callable[[str], tuple[int, Any]]


@pytest.fixture
def help_center(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Answer]]:
    """A server whose one entry says how a cursor is answered."""
    answers: list[Answer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cursor = parse_qs(urlsplit(self.path).query).get("after", [""])[0]
            status, body = answers[0](cursor)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it is called with
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("HELP_CENTER_URL", f"http://127.0.0.1:{server.server_port}/articles")
    yield answers
    server.shutdown()
    thread.join()
    server.server_close()


def article(slug: str) -> dict[str, str]:
    return {"slug": slug, "title": slug.upper(), "body": f"About {slug}.", "url": f"https://help.example.com/{slug}"}


PAGES = {
    "": {"articles": [article("a"), article("b")], "next": "p2"},
    "p2": {"articles": [article("c"), {"slug": "broken"}], "next": "p3"},
    "p3": {"articles": [article("d")], "next": None},
}


def test_the_api_is_read_page_by_page(help_center: list[Answer]) -> None:
    help_center.append(lambda cursor: (200, PAGES[cursor]))

    ids, reading = read(load("http_source"))

    assert ids == ["a", "b", "c", "d"]
    assert reading.reports == ("an article of page 2 lacks 'title'",)
    assert not reading.reasons


@pytest.mark.parametrize(("status", "body"), [(503, {}), (200, {"articles": 3}), (200, [])])
def test_a_later_page_that_fails_makes_the_read_incomplete(
    help_center: list[Answer], status: int, body: object
) -> None:
    help_center.append(lambda cursor: (status, body) if cursor == "p3" else (200, PAGES[cursor]))

    ids, reading = read(load("http_source"))

    assert ids == ["a", "b", "c"]
    assert [reason.split(":")[0] for reason in reading.reasons] == ["page 3"]


def test_a_first_page_that_fails_fails_the_read(help_center: list[Answer]) -> None:
    help_center.append(lambda cursor: (500, {}))

    with pytest.raises(SourceError, match=r"source help-center: HTTPStatusError: .*500"):
        read(load("http_source"))


def test_the_repository_is_read(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.commit({"docs/guide.rst": "Guide", "docs/a.md": "# A", "README.md": "not below docs"})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCS_REPOSITORY", str(repository.path))
    monkeypatch.setenv("DOCS_PATH", "docs")
    example = load("git_source")

    ids, reading = read(example)

    assert ids == ["a.md", "guide.rst"]
    assert not reading.reasons
    assert not example.knowledge.declared[0].trusted
