"""The pages whose commands talk to a service, against one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Service
from .shown import Ran, commands, run

pytestmark = pytest.mark.processes

DOCS = Path(__file__).parents[3] / "docs"

REST = DOCS / "reference/rest.md"
EXACT = ("code", "field", "mode", "kind", "scoreKind", "outcome", "name", "id", "collection", "document")

Typed = Callable[[str], list[Ran]]


@pytest.fixture
def typed(service: Service, tmp_path: Path) -> Typed:
    """Types the commands of a text."""
    curl = shutil.which("curl")
    assert curl, "the commands of the documentation need curl"
    variables = {"URL": service.url, "TOKEN": service.writer, "SECRET": service.hook_secret}
    return lambda text: run(commands(text), tmp_path, curl=curl, variables=variables)


def section(page: Path, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f'{page.name} has no section "{heading}"'
    return found[1]


def shape(value: Any) -> Any:
    """Names and kinds of values; the words that programs compare, as they are."""
    if isinstance(value, dict):
        named = {name for name in value if isinstance(value[name], str) and name in EXACT}
        return {name: value[name] if name in named else shape(value[name]) for name in value}
    if isinstance(value, list):
        return [shape(one) for one in value]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def objects(text: str) -> list[Any]:
    """The JSON values of a text, one after the other."""
    found, decoder, text = list[Any](), json.JSONDecoder(), text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].strip()
    return found


def test_every_command_of_the_rest_page_is_answered_as_it_says(typed: Typed) -> None:
    ran = typed(REST.read_text())

    asking = [one for one in ran if one.shown.promised is not None]
    assert len(asking) > 40
    assert [(one.shown.command, one.statuses[-1:]) for one in asking] == [
        (one.shown.command, [one.shown.promised]) for one in asking
    ]
    assert [one.shown.command for one in ran if "curl" in one.shown.command and one.shown.promised is None] == []
    for one in ran:
        if one.shown.answer:
            assert shape(objects(one.printed)) == shape(objects(one.shown.answer)), one.shown.command


def test_the_generic_recipe_of_the_webhook_page(service: Service, typed: Typed) -> None:
    def passes() -> list[Any]:
        with service.client() as client:
            return client.get("collections/docs/passes").json()["data"]

    before = len(passes())

    ran = typed(section(DOCS / "how-to/webhooks.md", "Any other sender"))

    asking = [one for one in ran if "curl" in one.shown.command]
    assert [one.statuses for one in asking] == [[202], [202]], [one.complained for one in ran]
    assert [json.loads(one.printed) for one in asking] == [json.loads(one.shown.answer) for one in asking]
    service.deployment.until(lambda: len(passes()) > before, what="the pass that the hook asked for")
