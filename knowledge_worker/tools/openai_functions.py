"""The tools as OpenAI functions, for the Responses API and for Chat Completions, without a framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, cast

from knowledge_worker.tools.result import ToolResult, recorded_result
from knowledge_worker.tools.taint import KEY, REFUSED, history_tainted
from knowledge_worker.tools.tool import KnowledgeTool, KnowledgeTools

P = ParamSpec("P")


class OpenAITools:
    """What one run needs: the tools' definitions, their answers, and whether the run is tainted.

    Args:
        tools: over the collections of this agent.
        history: the conversation so far, in either format, when it is gone on with: answers recorded there are
            replayed instead of searched again, and their taint holds.

    Attributes:
        taint: what tainted the run; plain data.
    """

    def __init__(self, tools: KnowledgeTools, history: Iterable[Mapping[str, Any]] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._recorded: dict[str, str] = {}
        self.taint: list[str] = []
        for item in history:
            self._remember(item)

    @property
    def responses(self) -> list[dict[str, Any]]:
        """For ``client.responses.create(tools=...)``."""
        return [{"type": "function", **_definition(tool)} for tool in self._tools.values()]

    @property
    def chat(self) -> list[dict[str, Any]]:
        """For ``client.chat.completions.create(tools=...)``."""
        return [{"type": "function", "function": _definition(tool)} for tool in self._tools.values()]

    @property
    def tainted(self) -> bool:
        """Whether something that is not trusted has reached the model, or is about to."""
        return bool(self.taint)

    def answer_responses(self, output: Iterable[Any]) -> list[dict[str, Any]]:
        """Answer the calls to our tools among ``response.output``; calls to other tools are yours.

        Returns:
            Items to append to the input of the next request.
        """
        calls = [item for item in output if _get(item, "type") == "function_call" and _get(item, "name") in self._tools]
        return [
            {
                "type": "function_call_output",
                "call_id": _get(call, "call_id"),
                "output": self._answer(_get(call, "call_id"), _get(call, "name"), _get(call, "arguments")),
            }
            for call in calls
        ]

    def answer_chat(self, message: Any) -> list[dict[str, Any]]:
        """Answer the calls to our tools in the message of a completion; calls to other tools are yours.

        Returns:
            Messages to append after it.
        """
        answers: list[dict[str, Any]] = []
        for call in _get(message, "tool_calls") or ():
            function = _get(call, "function")
            if function is not None and _get(function, "name") in self._tools:
                content = self._answer(_get(call, "id"), _get(function, "name"), _get(function, "arguments"))
                answers.append({"role": "tool", "tool_call_id": _get(call, "id"), "content": content})
        return answers

    def guard(self, function: Callable[P, str]) -> Callable[P, str]:
        """``function`` as it may be called in this run: it refuses once the run is tainted."""

        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> str:
            return REFUSED if self.tainted else function(*args, **kwargs)

        return guarded

    def _answer(self, call_id: str, name: str, given: str) -> str:
        if call_id in self._recorded:
            return self._recorded[call_id]
        result = self._tools[name].call(given)
        self._taint(result)
        self._recorded[call_id] = result.text
        return result.text

    def _taint(self, result: ToolResult) -> None:
        if result.tainted and result.source not in self.taint:
            self.taint.append(result.source)

    def _remember(self, item: Mapping[str, Any]) -> None:
        call_id = _get(item, "call_id") or _get(item, "tool_call_id")
        content = _get(item, "output") or _get(item, "content")
        if isinstance(call_id, str) and isinstance(content, str) and recorded_result("", content) is not None:
            self._recorded[call_id] = content
        if history_tainted([item]) and not self.taint:
            self.taint.append(f"history:{KEY}")


def _definition(tool: KnowledgeTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.strict_schema, "strict": True}


def _get(item: Any, name: str) -> Any:
    """A field of what the client answers, or of the same as plain data."""
    return cast("Mapping[str, Any]", item).get(name) if isinstance(item, Mapping) else getattr(item, name, None)
