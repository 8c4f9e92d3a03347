"""Where a run was tainted, kept as plain data in what the framework carries along and stores (rule 63).

A taint is the name of what brought it, such as ``tool:knowledge_search``. Two places remember it: the context that an
application gives to a run, under :data:`KEY`, and the recorded answers of our tools themselves, which say ``tainted``.
Nobody can take a taint away by writing text, since one answer that says it is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, cast

from knowledge_worker.tools.result import ToolResult, says_tainted

KEY: Final = "knowledge_taint"
"""Of a mapping that is a run's context; attribute of an object that is one; in the metadata of a recorded answer."""

REFUSED: Final = (
    "Refused: text from outside this application was read in this run, and this tool may not be used after that. "
    "Say what you wanted to do and let a person do it."
)
NOT_APPROVED: Final = "A person did not approve this call. Do not try it again; say what you wanted to do."


def mark(context: object, result: ToolResult) -> None:
    """Remember in a run's context that ``result`` taints it, where the context can hold that."""
    if not result.tainted:
        return
    known = sources(context)
    if known is not None and result.source not in known:
        _set(context, [*known, result.source])


def sources(context: object) -> list[str] | None:
    """What tainted the run of this context; None when the context cannot hold a taint, so that nobody knows."""
    if isinstance(context, MutableMapping):
        found = cast("MutableMapping[str, Any]", context).get(KEY)
    else:
        found = getattr(context, KEY, None)
        if found is None and not _set(context, []):
            return None
    if found is None:
        return []
    # Whatever else stands there, such as True, is a taint of unknown origin.
    return [str(one) for one in cast("Sequence[object]", found)] if isinstance(found, list | tuple) else [str(found)]


def recorded_taint(metadata: object) -> bool:
    """Whether the metadata that an adapter put on a recorded answer says that it taints."""
    return isinstance(metadata, Mapping) and bool(cast("Mapping[str, Any]", metadata).get(KEY))


def metadata_of(result: ToolResult) -> dict[str, Any]:
    """What an adapter puts on a recorded answer; models do not see it."""
    return {KEY: [result.source] if result.tainted else []}


def history_tainted(items: Iterable[object]) -> bool:
    """Whether a conversation in OpenAI's formats, Responses or Chat, holds an answer that taints."""
    return any(_item_tainted(item) for item in items)


def _item_tainted(item: object) -> bool:
    fields = cast("Mapping[str, Any]", item if isinstance(item, Mapping) else getattr(item, "__dict__", {}))
    if fields.get("type") == "function_call_output":
        return _any_tainted(fields.get("output"))
    return fields.get("role") == "tool" and _any_tainted(fields.get("content"))


def _any_tainted(content: object) -> bool:
    """Text, or parts with text."""
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        return any(isinstance(one, Mapping) and says_tainted(cast("Any", one).get("text")) for one in parts)
    return says_tainted(content)


def _set(context: object, value: list[str]) -> bool:
    if isinstance(context, MutableMapping):
        cast("MutableMapping[str, Any]", context)[KEY] = value
        return True
    try:
        setattr(context, KEY, value)
    except (AttributeError, TypeError, ValueError):  # None, slots, frozen classes, models with fixed fields
        return False
    return True
