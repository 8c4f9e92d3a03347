"""The REST page against the OpenAPI document: every route, status, parameter, field and error code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from knowledge_worker import errors
from knowledge_worker._bundled import load_api

load_api()
from knowledge_worker_api.errors import STATUSES  # noqa: E402

PAGE = (Path(__file__).parents[3] / "docs/reference/rest.md").read_text()
ALWAYS = {"400", "401", "403", "500", "503"}
"""What the page says once for all routes below ``/knowledge``."""

_METHODS = ("get", "post", "put", "delete")


@pytest.fixture
def document(client: TestClient) -> dict[str, Any]:
    return client.get("/openapi.json").json()


def section(heading: str) -> str:
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def named() -> set[str]:
    """Everything that the page has in backticks, outside of its commands."""
    prose = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([^`\n]+)`", prose))


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if re.match(r"\| (`|\d{3})", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def fields(schema: Any) -> Iterator[str]:
    """The names of all properties of a schema and of those inside it."""
    if isinstance(schema, list):
        for one in schema:
            yield from fields(one)
    elif isinstance(schema, dict):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            yield from properties
        for key, value in schema.items():
            if key not in ("example", "examples", "not"):
                yield from fields(value)


def test_the_page_has_every_route_with_its_statuses(document: dict[str, Any]) -> None:
    shown = {cells[0].strip("`"): set(re.findall(r"\d{3}", " ".join(cells[2:]))) for cells in rows(section("Routes"))}
    described: dict[str, set[str]] = {}
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                statuses = set(operations[method]["responses"])
                described[f"{method.upper()} {path}"] = statuses - ALWAYS if path.startswith("/knowledge") else statuses
    assert shown == described


def test_what_a_route_needs_is_what_its_token_is_asked_for(document: dict[str, Any]) -> None:
    for route, needs, *_ in rows(section("Routes")):
        method, path = route.strip("`").split()
        security = document["paths"][path][method.lower()].get("security")
        expected = {"read": [{"token": []}], "write": [{"token": []}], "a signature": [{"hookSignature": []}], "": None}
        assert security == expected[needs], route


def test_the_page_has_every_parameter(document: dict[str, Any]) -> None:
    parameters = {
        one["name"]
        for operations in document["paths"].values()
        for operation in operations.values()
        for one in operation.get("parameters", [])
    }
    assert parameters - {"name"} <= {part for text in named() for part in (text, text.partition(":")[0])}


def test_the_page_has_every_field_of_every_body_and_answer(document: dict[str, Any]) -> None:
    bodies = [operation for operations in document["paths"].values() for operation in operations.values()]
    known = set(fields(bodies)) | set(fields(list(document["components"]["schemas"].values())))
    assert len(known) > 60
    words = {word for text in named() for word in re.findall(r"[A-Za-z0-9]+", text)}
    # In commands and their answers, too: `data`, `meta` and the like are shown, not told.
    words |= set(re.findall(r'"(\w+)":', PAGE))
    assert known - words == set()


def test_the_page_has_every_error_code_under_its_status() -> None:
    shown: dict[str, int] = {}
    for status, codes, _ in rows(section("Errors")):
        shown |= dict.fromkeys(re.findall(r"`(\w+)`", codes), int(status))
    answered = {
        kind.code: int(STATUSES[next(one for one in kind.__mro__ if one in STATUSES)])
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.KnowledgeError) and set(kind.__mro__) & set(STATUSES)
    }
    of_the_router = {"method_not_allowed": 405, "internal": 500}
    assert shown == answered | of_the_router
