"""The tools in the format of an agent framework; each framework is imported when its adapter is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from knowledge_worker.tools.extras import require
from knowledge_worker.tools.openai_functions import OpenAITools
from knowledge_worker.tools.tool import KnowledgeTools

if TYPE_CHECKING:
    from agents import FunctionTool
    from langchain_core.tools import StructuredTool
    from mcp.server import Server
    from pydantic_ai import Tool


def openai_tools(tools: KnowledgeTools, history: Iterable[Mapping[str, Any]] = ()) -> OpenAITools:
    """For one run with the plain OpenAI client: definitions for Responses and Chat, and what answers the calls.

    Args:
        tools: over the collections of this agent.
        history: the conversation so far when it is gone on with; answers recorded there are replayed.
    """
    return OpenAITools(tools, history)


def openai_agents_tools(tools: KnowledgeTools) -> list[FunctionTool]:
    """For ``Agent(tools=...)`` of the OpenAI Agents SDK; give the run a context, such as ``{}``, that keeps the taint.

    Raises:
        ConfigurationError: the extra ``openai-agents`` is not installed.
    """
    require("openai-agents", "openai-agents")
    from knowledge_worker.tools import openai_agents

    return openai_agents.function_tools(tools)


def pydantic_ai_tools(tools: KnowledgeTools) -> list[Tool[Any]]:
    """For ``Agent(tools=...)`` of Pydantic AI.

    Raises:
        ConfigurationError: the extra ``pydantic-ai`` is not installed.
    """
    require("pydantic-ai", "pydantic-ai-slim")
    from knowledge_worker.tools import pydantic_ai

    return pydantic_ai.tools_of(tools)


def langchain_tools(tools: KnowledgeTools) -> list[StructuredTool]:
    """For ``create_agent(tools=...)`` of LangChain, ``ToolNode`` of LangGraph, or ``model.bind_tools``.

    Raises:
        ConfigurationError: the extra ``langchain`` is not installed.
    """
    require("langchain", "langchain-core", "langgraph")
    from knowledge_worker.tools import langchain

    return langchain.structured_tools(tools)


def mcp_server(tools: KnowledgeTools) -> Server[Any]:
    """An MCP server, to run over a transport of the official SDK; ``knowledge-worker mcp`` runs one.

    Raises:
        ConfigurationError: the extra ``mcp`` is not installed.
    """
    require("mcp", "mcp")
    from knowledge_worker.tools import mcp

    return mcp.mcp_server(tools)
