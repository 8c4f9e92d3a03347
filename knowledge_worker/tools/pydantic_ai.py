"""The tools for Pydantic AI.

The taint lives in the message history, on the return of the tool (``ToolReturnPart.metadata``, which models do not
see), so it is stored and comes back with the history. Dependencies are not used for it: applications share them
between runs.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import ApprovalRequired, RunContext, Tool
from pydantic_ai.messages import ModelMessage, ToolReturn, ToolReturnPart
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from knowledge_worker.tools._bridge import in_thread
from knowledge_worker.tools.guarding import WhenTainted
from knowledge_worker.tools.result import says_tainted
from knowledge_worker.tools.taint import REFUSED, metadata_of, recorded_taint
from knowledge_worker.tools.tool import KnowledgeTool, KnowledgeTools


def tools_of(tools: KnowledgeTools) -> list[Tool[Any]]:
    """See :func:`knowledge_worker.tools.pydantic_ai_tools`."""
    return [_tool(tool) for tool in tools]


def is_tainted(messages: Iterable[ModelMessage]) -> bool:
    """Whether a history holds something that is not trusted."""
    return any(
        recorded_taint(part.metadata) or says_tainted(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    )


def guard_any(tool: object, *, when_tainted: WhenTainted) -> Tool[Any] | AbstractToolset[Any] | None:
    """See :func:`knowledge_worker.tools.guard`; None for what is neither a tool nor a toolset."""
    if isinstance(tool, AbstractToolset):
        return GuardedToolset(tool, when_tainted=when_tainted)
    return _guarded(tool, when_tainted) if isinstance(tool, Tool) else None


def _guarded(tool: Tool[Any], when_tainted: WhenTainted) -> Tool[Any]:
    async def guarded(context: RunContext[Any], *args: Any, **kwargs: Any) -> Any:
        if _is_held_back(context, when_tainted):
            return REFUSED
        given = (context, *args) if tool.takes_ctx else args
        if tool.function_schema.is_async:
            return await tool.function(*given, **kwargs)
        answer = await in_thread(tool.function, *given, **kwargs)
        return await answer if inspect.isawaitable(answer) else answer

    changed = copy.copy(tool)
    changed.function = guarded
    changed.takes_ctx = True
    changed.function_schema = replace(tool.function_schema, function=guarded, takes_ctx=True, is_async=True)
    return changed


@dataclass
class GuardedToolset(WrapperToolset[Any]):
    """A toolset whose tools ask for approval, or refuse, in a tainted run."""

    when_tainted: WhenTainted = "approve"

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call a tool of the toolset, unless it is held back."""
        if _is_held_back(ctx, self.when_tainted):
            return REFUSED
        return await super().call_tool(name, tool_args, ctx, tool)


def _is_held_back(context: RunContext[Any], when_tainted: WhenTainted) -> bool:
    """Whether the call is refused.

    Raises:
        ApprovalRequired: a person has to approve it first.
    """
    if not is_tainted(context.messages):
        return False
    if when_tainted == "refuse":
        return True
    if not context.tool_call_approved:
        raise ApprovalRequired
    return False


def _tool(tool: KnowledgeTool) -> Tool[Any]:
    async def call(**given: Any) -> ToolReturn[Any]:
        result = await in_thread(tool.call, given)
        return ToolReturn(return_value=result.text, metadata=metadata_of(result))

    return Tool[Any].from_schema(call, name=tool.name, description=tool.description, json_schema=tool.schema)
