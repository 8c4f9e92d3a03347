"""The tools for the OpenAI Agents SDK.

The taint lives in the context that the application gives to the run (``Runner.run(..., context={})``): a mapping, or
an object that takes attributes. A ``RunState`` stores a mapping with the rest of the run, so an approval may wait
across a restart. Without such a context nobody can know, and a guarded tool takes the run for tainted.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any

from agents import FunctionTool, RunContextWrapper
from agents.tool_context import ToolContext

from knowledge_worker.tools._bridge import in_thread
from knowledge_worker.tools.guarding import WhenTainted
from knowledge_worker.tools.taint import REFUSED, history_tainted, mark, sources
from knowledge_worker.tools.tool import KnowledgeTool, KnowledgeTools


def function_tools(tools: KnowledgeTools) -> list[FunctionTool]:
    """See :func:`knowledge_worker.tools.openai_agents_tools`."""
    return [_function_tool(tool) for tool in tools]


def is_tainted(context: RunContextWrapper[Any]) -> bool:
    """Whether the run has seen something that is not trusted, or nobody can know."""
    known = sources(context.context)
    return known is None or bool(known) or history_tainted(context.turn_input)


def guard_any(tool: object, *, when_tainted: WhenTainted) -> FunctionTool | None:
    """See :func:`knowledge_worker.tools.guard`; None for what is no function tool, such as a hosted one."""
    return _guarded(tool, when_tainted) if isinstance(tool, FunctionTool) else None


def _guarded(tool: FunctionTool, when_tainted: WhenTainted) -> FunctionTool:
    guarded = copy.copy(tool)

    async def invoke(context: ToolContext[Any], given: str) -> Any:
        if when_tainted == "refuse" and is_tainted(context):
            return REFUSED
        return await tool.on_invoke_tool(context, given)

    # Behind a plain function the SDK asks the policy below for every call; in front of a decorated one it would ask a
    # person, in clean runs too, whenever a default fills in an argument.
    guarded.on_invoke_tool = invoke
    if when_tainted == "approve":
        guarded.needs_approval = _needs_approval(tool)
    return guarded


def _needs_approval(tool: FunctionTool) -> Callable[[RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]:
    async def needs_approval(context: RunContextWrapper[Any], given: dict[str, Any], call_id: str) -> bool:
        before = tool.needs_approval
        if before is True or (callable(before) and await before(context, given, call_id)):
            return True
        return is_tainted(context)

    return needs_approval


def _function_tool(tool: KnowledgeTool) -> FunctionTool:
    async def invoke(context: ToolContext[Any], given: str) -> str:
        result = await in_thread(tool.call, given)
        mark(context.context, result)
        return result.text

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.strict_schema,
        on_invoke_tool=invoke,
        strict_json_schema=True,
    )
