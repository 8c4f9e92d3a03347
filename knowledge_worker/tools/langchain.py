"""The tools for LangChain and LangGraph.

The taint lives in the graph's state, on the answer of the tool (``ToolMessage.artifact``, which models do not see), so
a checkpointer stores it and it comes back with the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.func import task
from langgraph.prebuilt import ToolRuntime
from langgraph.types import interrupt

from knowledge_worker.tools._bridge import in_thread
from knowledge_worker.tools.guarding import WhenTainted
from knowledge_worker.tools.result import says_tainted
from knowledge_worker.tools.taint import NOT_APPROVED, REFUSED, metadata_of, recorded_taint
from knowledge_worker.tools.tool import KnowledgeTool, KnowledgeTools

Answer = tuple[str, dict[str, Any]]
"""What the model gets, and the artifact beside it."""

CALL: Final = "__pregel_call"
"""What a running graph has in its configuration; without it there is nothing to call a step with."""

_OUTSIDE: Any = None
"""No graph is running; LangGraph only gives its runtime to an argument whose type is that and nothing else."""


def structured_tools(tools: KnowledgeTools) -> list[StructuredTool]:
    """See :func:`knowledge_worker.tools.langchain_tools`."""
    return [_structured_tool(tool) for tool in tools]


def is_tainted(state: object) -> bool:
    """Whether the messages in a graph's state hold something that is not trusted; True when there are none."""
    found = _messages(state)
    answers = [message for message in found if isinstance(message, ToolMessage)]
    return not found or any(recorded_taint(one.artifact) or says_tainted(one.content) for one in answers)


def guard_any(tool: object, *, when_tainted: WhenTainted) -> StructuredTool | None:
    """See :func:`knowledge_worker.tools.guard`; None for what is no tool."""
    return _guarded(tool, when_tainted) if isinstance(tool, BaseTool) else None


def _guarded(tool: BaseTool, when_tainted: WhenTainted) -> StructuredTool:

    def run(runtime: ToolRuntime[Any, Any] = _OUTSIDE, **given: Any) -> Any:
        refusal = _refusal(tool, runtime, given, when_tainted)
        return tool.invoke(_call(tool, runtime, given), _config(runtime)) if refusal is None else refusal

    async def arun(runtime: ToolRuntime[Any, Any] = _OUTSIDE, **given: Any) -> Any:
        refusal = _refusal(tool, runtime, given, when_tainted)
        return await tool.ainvoke(_call(tool, runtime, given), _config(runtime)) if refusal is None else refusal

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.args_schema if tool.args_schema is not None else tool.get_input_schema(),
        func=run,
        coroutine=arun,
        return_direct=tool.return_direct,
        metadata=tool.metadata,
        tags=tool.tags,
    )


def _refusal(
    tool: BaseTool, runtime: ToolRuntime[Any, Any] | None, given: Mapping[str, Any], when_tainted: WhenTainted
) -> str | None:
    """What the model is told instead of the tool's answer; None when the tool may run.

    Raises:
        GraphInterrupt: a person has to decide first; the graph stops here and goes on with the decision.
    """
    if runtime is not None and not is_tainted(runtime.state):
        return None
    if runtime is None or when_tainted == "refuse":
        return REFUSED
    shown = {name: value for name, value in given.items() if name in tool.args}
    return None if _approves(interrupt(_question(tool, shown))) else NOT_APPROVED


def _question(tool: BaseTool, given: Mapping[str, Any]) -> dict[str, Any]:
    """In the form of LangChain's own middleware for approvals, so that the same screens show it."""
    return {
        "action_requests": [
            {
                "name": tool.name,
                "args": dict(given),
                "description": "Text from outside this application was read in this run before this call.",
            }
        ],
        "review_configs": [{"action_name": tool.name, "allowed_decisions": ["approve", "reject"]}],
    }


def _approves(decision: object) -> bool:
    if isinstance(decision, Mapping):
        fields = cast("Mapping[str, Any]", decision)
        decisions = fields.get("decisions")
        if isinstance(decisions, list) and len(cast("list[object]", decisions)) == 1:
            return _approves(cast("list[object]", decisions)[0])
        return fields.get("type") == "approve"
    return decision is True


def _call(tool: BaseTool, runtime: ToolRuntime[Any, Any] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    wants_runtime = "runtime" in tool._injected_args_keys  # pyright: ignore[reportPrivateUsage]
    args = {**given, "runtime": runtime} if wants_runtime else dict(given)
    return {
        "type": "tool_call",
        "name": tool.name,
        "args": args,
        "id": runtime.tool_call_id if runtime is not None else None,
    }


def _config(runtime: ToolRuntime[Any, Any] | None) -> Any:
    return runtime.config if runtime is not None else None


def _parts(state: object) -> Iterable[object]:
    if isinstance(state, list):
        return [cast("list[object]", state)]
    if isinstance(state, Mapping):
        return cast("Mapping[str, object]", state).values()
    return vars(state).values() if hasattr(state, "__dict__") else ()


def _structured_tool(tool: KnowledgeTool) -> StructuredTool:
    def answered(given: dict[str, Any]) -> Answer:
        result = tool.call(given)
        return result.text, metadata_of(result)

    def run(runtime: ToolRuntime[Any, Any] = _OUTSIDE, **given: Any) -> Answer:
        step = _step(tool, runtime, answered)
        return answered(given) if step is None else _replayed(step(given).result())

    async def arun(runtime: ToolRuntime[Any, Any] = _OUTSIDE, **given: Any) -> Answer:
        step = _step(tool, runtime, answered)
        return await in_thread(answered, given) if step is None else _replayed(await step(given))

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.schema,
        func=cast("Callable[..., Any]", run),
        coroutine=arun,
        response_format="content_and_artifact",
    )


def _step(
    tool: KnowledgeTool, runtime: ToolRuntime[Any, Any] | None, answered: Callable[[dict[str, Any]], Answer]
) -> Any:
    """A step whose answer the checkpointer keeps, where one is needed; else None.

    A node that runs several calls of one message runs all of them again when one of them waited for a person. What was
    found must be replayed then: a second search could find something else than what the person saw.
    """
    if runtime is None or CALL not in runtime.config.get("configurable", {}):
        return None
    asked = [message for message in _messages(runtime.state) if isinstance(message, AIMessage)]
    if not asked or len(asked[-1].tool_calls) < 2:
        return None

    def search(given: dict[str, Any]) -> Answer:
        return answered(given)

    # The name is part of what the answer is found again by.
    return task(search, name=f"{tool.name}:{runtime.tool_call_id}")  # pyright: ignore[reportCallIssue, reportArgumentType]


def _replayed(kept: Sequence[Any]) -> Answer:
    """A pair that went through a checkpointer is a list."""
    text, metadata = kept
    return text, metadata


def _messages(state: object) -> list[object]:
    return [message for part in _parts(state) if isinstance(part, list) for message in cast("list[object]", part)]
