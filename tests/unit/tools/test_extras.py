"""Without its extra an adapter says what to install; the tools themselves need no framework."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from knowledge_worker.errors import ConfigurationError
from knowledge_worker.tools import (
    KnowledgeTools,
    extras,
    langchain_tools,
    mcp_server,
    openai_agents_tools,
    pydantic_ai_tools,
)


@pytest.mark.parametrize(
    ("adapter", "extra"),
    [
        (openai_agents_tools, "openai-agents"),
        (pydantic_ai_tools, "pydantic-ai"),
        (langchain_tools, "langchain"),
        (mcp_server, "mcp"),
    ],
)
def test_an_adapter_without_its_framework_names_the_extra(
    make_tools: Callable[..., KnowledgeTools],
    monkeypatch: pytest.MonkeyPatch,
    adapter: Callable[[KnowledgeTools], Any],
    extra: str,
) -> None:
    def nothing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", nothing)
    with pytest.raises(ConfigurationError, match=rf'pip install "knowledge-worker\[{extra}\]"'):
        adapter(make_tools())


def test_the_tools_load_no_framework() -> None:
    code = (
        "import sys, knowledge_worker.tools, knowledge_worker.cli.mcp\n"
        "print([name for name in ('agents', 'pydantic_ai', 'langchain_core', 'langgraph', 'mcp', 'openai')"
        " if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
