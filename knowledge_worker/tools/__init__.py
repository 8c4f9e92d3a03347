"""What an agent searches and reads with: two plain tools, and adapters to agent frameworks."""

from __future__ import annotations

from knowledge_worker.tools.adapters import (
    langchain_tools,
    mcp_server,
    openai_agents_tools,
    openai_tools,
    pydantic_ai_tools,
)
from knowledge_worker.tools.guarding import guard
from knowledge_worker.tools.openai_functions import OpenAITools
from knowledge_worker.tools.result import ToolResult, recorded_result
from knowledge_worker.tools.tool import KnowledgeTool, KnowledgeTools, knowledge_tools

__all__ = [
    "KnowledgeTool",
    "KnowledgeTools",
    "OpenAITools",
    "ToolResult",
    "guard",
    "knowledge_tools",
    "langchain_tools",
    "mcp_server",
    "openai_agents_tools",
    "openai_tools",
    "pydantic_ai_tools",
    "recorded_result",
]
