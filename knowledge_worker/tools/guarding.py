"""Which framework a tool is of, so that its own way to hold a call back is used."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeVar, get_args

from knowledge_worker.errors import ConfigurationError

WhenTainted = Literal["approve", "refuse"]
T = TypeVar("T")

_FRAMEWORKS: Final = {"agents": "openai-agents", "pydantic_ai": "pydantic-ai", "langchain_core": "langchain"}


def guard(tool: T, when_tainted: WhenTainted = "approve") -> T:
    """The tool as it should be given to an agent that reads what others wrote.

    In a clean run it does what it did. In a tainted one, or where nobody can know, a person is asked in the framework's
    own way (``needs_approval`` of the OpenAI Agents SDK, deferred tools of Pydantic AI, an interrupt of LangGraph), or
    the call is refused in words that the model can read.

    Args:
        tool: of one of these frameworks; a toolset of Pydantic AI too. A plain function has no run to look at: see
            :meth:`knowledge_worker.tools.OpenAITools.guard`.
        when_tainted: ``"approve"`` or ``"refuse"``.

    Raises:
        ConfigurationError: the tool is of no framework that this knows, or ``when_tainted`` is something else.
    """
    if when_tainted not in get_args(WhenTainted):
        raise ConfigurationError('when_tainted is "approve" or "refuse".')
    guarded: Any = None
    match _framework(tool):
        case "agents":
            from knowledge_worker.tools import openai_agents

            guarded = openai_agents.guard_any(tool, when_tainted=when_tainted)
        case "pydantic_ai":
            from knowledge_worker.tools import pydantic_ai

            guarded = pydantic_ai.guard_any(tool, when_tainted=when_tainted)
        case "langchain_core":
            from knowledge_worker.tools import langchain

            guarded = langchain.guard_any(tool, when_tainted=when_tainted)
        case _:
            pass
    if guarded is None:
        known = ", ".join(_FRAMEWORKS.values())
        raise ConfigurationError(f"A {type(tool).__name__} cannot be guarded; tools of these can: {known}.")
    return guarded


def _framework(tool: object) -> str | None:
    """The framework that the class of a tool, or one it inherits from, comes from."""
    for parent in type(tool).__mro__:
        package = parent.__module__.partition(".")[0]
        if package in _FRAMEWORKS:
            return package
    return None
