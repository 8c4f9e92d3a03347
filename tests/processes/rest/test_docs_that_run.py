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
