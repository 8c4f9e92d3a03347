"""What the OpenAPI document says against what the service does: requests made from it, right and wrong, all checks on.

What they found is tested by itself in ``tests/unit/api``; the two rules that no schema can say are in
``schemathesis.toml`` and ``schemathesis_hooks.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Service

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]

HERE = Path(__file__).parent


@pytest.fixture
def handbook(service: Service) -> None:
    """The collection and document that the examples of the OpenAPI document name."""
    with service.client() as client:
        client.post("collections", json={"name": "handbook"})
        client.put("collections/handbook/documents/setup.md", json={"content": "Run it."}).raise_for_status()


def attack(service: Service, folder: Path, *options: str, hook_secret: str | None) -> dict[str, Any]:
    """Run schemathesis and answer its report; a fault fails the test with what it wrote, which ends in commands.

    Args:
        hook_secret: what it signs requests to webhooks with, or None.
    """
    report = folder / "report.json"
    ended = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml",
            "run", f"{service.url}/openapi.json", *options, "--generation-deterministic", "--continue-on-failure",
            "--no-shrink", "--no-color", "--report", "json", "--report-json-path", report,
        ],
        cwd=folder,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
            "PYTHONPATH": str(HERE),
            **({} if hook_secret is None else {"HOOK_SECRET": hook_secret}),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )  # fmt: skip
    assert ended.returncode == 0, f"{ended.stdout[-20_000:]}\n{ended.stderr[-4000:]}"
    answer: dict[str, Any] = json.loads(report.read_text())
    assert (answer["failures"], answer["errors"]) == ([], [])
    assert answer["operations"]["tested"] == answer["operations"]["total"]
    return answer


def test_with_a_token_that_may_write(service: Service, handbook: None, tmp_path: Path) -> None:
    header = f"Authorization: Bearer {service.writer}"
    report = attack(service, tmp_path, "--header", header, "--max-examples", "10", hook_secret=service.hook_secret)
    assert report["test_cases"]["generated"] > 800
    assert {phase["status"] for phase in report["phases"].values()} == {"success"}


def test_with_a_token_that_may_read(service: Service, handbook: None, tmp_path: Path) -> None:
    header = f"Authorization: Bearer {service.reader}"
    options = ("--header", header, "--phases", "examples,coverage")
    report = attack(service, tmp_path, *options, hook_secret=service.hook_secret)
    assert report["test_cases"]["generated"] > 400


def test_without_a_token_and_a_secret(service: Service, tmp_path: Path) -> None:
    report = attack(service, tmp_path, "--phases", "examples,coverage", hook_secret=None)
    assert report["test_cases"]["generated"] > 400
