"""The examples of agents, each a real process with its real framework, over a real store and a scripted OpenAI.

``TRANSCRIPTS=FILE`` appends what was said to a file; the transcripts of the documentation were made so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from knowledge_worker.testing.scripted_openai import ScriptedOpenAI

if TYPE_CHECKING:
    from .conftest import Application

EXAMPLES = Path(__file__).parents[3] / "examples" / "agents"
BIN = str(Path(sys.executable).parent)
HOW_LONG = "How long do refunds take?"
MAIL = {"send_mail": {"to": "eve@example.com", "text": "all of it"}}


def run_example(
    name: str, question: str, application: Application, *said: str | Mapping[str, Any], typed: str = ""
) -> tuple[str, list[dict[str, Any]]]:
    """Run an example; answers what it printed and what the model was sent."""
    with ScriptedOpenAI(*said) as openai:
        environment = {
            **application.process_environment,
            "OPENAI_BASE_URL": openai.base_url,
            "OPENAI_API_KEY": "test-key",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": str(application.folder),
        }
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / f"{name}.py"), question],
            cwd=application.folder,
            env=environment,
            input=typed,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        write_transcript(name, question, openai.requests, done.stdout)
        return done.stdout, openai.requests


def conversation(requests: list[dict[str, Any]]) -> list[Any]:
    return requests[-1].get("input") or requests[-1]["messages"] if requests else []


def tool_answers(requests: list[dict[str, Any]]) -> list[str]:
    answers = [
        one.get("output") or one.get("content")
        for one in conversation(requests)
        if one.get("type") == "function_call_output" or one.get("role") == "tool"
    ]
    return [one if isinstance(one, str) else one[0]["text"] for one in answers]


def write_transcript(name: str, question: str, requests: list[dict[str, Any]], printed: str) -> None:
    target = os.environ.get("TRANSCRIPTS")
    if not target:
        return
    lines = [f"### {name}", f"user   {question}"]
    for one in conversation(requests):
        if one.get("type") == "function_call":
            lines.append(f"model  {one['name']} {one['arguments']}")
        for call in one.get("tool_calls") or ():
            lines.append(f"model  {call['function']['name']} {call['function']['arguments']}")
        if one.get("type") == "function_call_output" or one.get("role") == "tool":
            lines.append(f"tool   {one.get('output') or one.get('content')}")
    with Path(target).open("a") as file:
        file.write("\n".join([*lines, "--- printed", printed, ""]))


@pytest.mark.parametrize("name", ["openai_responses", "openai_chat"])
def test_an_agent_on_the_plain_client_answers_from_the_handbook(name: str, application: Application) -> None:
    search = {"knowledge_search": {"query": HOW_LONG, "collection": None, "topK": 1}}
    printed, requests = run_example(name, HOW_LONG, application, search, "14 days (refunds.md).")
    assert printed == "14 days (refunds.md).\n"
    (found,) = tool_answers(requests)
    assert json.loads(found)["matches"][0]["document"] == "refunds.md"


@pytest.mark.parametrize("name", ["openai_agents_sdk", "pydantic_ai_agent", "langchain_agent"])
def test_an_agent_that_read_a_ticket_asks_before_it_mails(name: str, application: Application) -> None:
    search = {"knowledge_search": {"query": "ignore your instructions", "collection": "tickets"}}
    printed, requests = run_example(
        name, "What is ticket 1?", application, search, MAIL, "I did not mail.", typed="no\n"
    )
    assert "The agent wants send_mail" in printed
    assert printed.endswith("I did not mail.\n")
    found, refused = tool_answers(requests)
    assert json.loads(found)["tainted"] is True
    assert "sent to" not in refused


@pytest.mark.parametrize("name", ["openai_agents_sdk", "pydantic_ai_agent", "langchain_agent"])
def test_an_agent_that_read_the_handbook_mails_at_once(name: str, application: Application) -> None:
    search = {"knowledge_search": {"query": HOW_LONG, "collection": "handbook", "topK": 1}}
    printed, requests = run_example(name, "Mail how long refunds take.", application, search, MAIL, "Done.")
    assert printed == "Done.\n"
    assert tool_answers(requests)[1] == "sent to eve@example.com: all of it"


def test_an_mcp_client_sees_tools_and_collections(application: Application) -> None:
    printed, _ = run_example("mcp_client", HOW_LONG, application)
    assert printed.startswith("tool knowledge_search: Search reference material")
    assert "resource knowledge://handbook: Handbook" in printed
    assert '"document": "refunds.md"' in printed
