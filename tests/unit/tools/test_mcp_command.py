"""Options of ``knowledge-worker mcp`` that are wrong; it starts nothing and connects to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_worker.cli import cli
from knowledge_worker.cli.running import run

NAMED = ["--collection", "handbook"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name what MCP clients may search: --collection handbook."),
        (["--collection", "No Name"], 'Try "no-name"'),
        ([*NAMED, "--top-k", "99"], "top_k is a whole number from 1 to 20"),
        ([*NAMED, "--min-score", "7"], "min_score is a number from -1 to 1"),
        ([*NAMED, "--transport", "http"], "set KNOWLEDGE_TOKENS"),
    ],
)
def test_wrong_options_are_said_in_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "handbook").mkdir()
    (tmp_path / "app_of_mcp.py").write_text(
        "from knowledge_worker import Knowledge, KnowledgeCollection, folder\n"
        'knowledge = Knowledge([KnowledgeCollection("handbook", model="fake/m", sources=[folder("handbook")])])\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, value in (
        ("APP", "app_of_mcp:knowledge"),
        ("DATABASE_URL", "postgresql://localhost/none"),
        ("REDIS_URL", "redis://localhost"),
        ("TOKENS", "[]"),
    ):
        monkeypatch.setenv(f"KNOWLEDGE_{name}", value)
    assert run(cli, ["mcp", *arguments]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
