"""JSON schemas of arguments: flat, every choice an enum, nothing but the types that every provider takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from knowledge_worker.domain.limits import QUERY_MAX_CHARS, RESULTS_MAX
from knowledge_worker.tools.limits import READ_DEFAULT_CHARS, READ_MAX_CHARS, READ_MIN_CHARS

_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
"""Strict mode refuses these, or some providers of it do; the tools check them anyway."""


def search_schema(collections: Sequence[str], *, top_k: int) -> dict[str, Any]:
    """Of the arguments of ``knowledge_search``."""
    return _object(
        {
            "query": {
                "type": "string",
                "description": "What you want to know, as a whole question or as key words. "
                f"1 to {QUERY_MAX_CHARS} characters.",
                "minLength": 1,
                "maxLength": QUERY_MAX_CHARS,
            },
            "collection": {
                "type": "string",
                "description": "Search only this collection. Leave it out to search all of them.",
                "enum": list(collections),
            },
            "topK": {
                "type": "integer",
                "description": f"The most passages to get, 1 to {RESULTS_MAX}. Default: {top_k}.",
                "minimum": 1,
                "maximum": RESULTS_MAX,
            },
        },
        required=("query",),
    )


def read_schema(collections: Sequence[str]) -> dict[str, Any]:
    """Of the arguments of ``knowledge_read``."""
    return _object(
        {
            "collection": {"type": "string", "description": "As in a match.", "enum": list(collections)},
            "document": {"type": "string", "description": "The id of the document, exactly as in a match."},
            "section": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Read this section: its headings as in a match, outermost first.",
            },
            "lines": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "Read these lines: the first and the last one, counted from 1, as in a match.",
            },
            "around": {
                "type": "integer",
                "description": "Read what stands around a match: its index.",
                "minimum": 0,
            },
            "line": {"type": "integer", "description": "Read what stands around this line.", "minimum": 1},
            "offset": {
                "type": "integer",
                "description": "Go on reading from here: the offset that an earlier answer gave.",
                "minimum": 0,
            },
            "maxChars": {
                "type": "integer",
                "description": f"The most characters to get, {READ_MIN_CHARS} to {READ_MAX_CHARS}. "
                f"Default: {READ_DEFAULT_CHARS}.",
                "minimum": READ_MIN_CHARS,
                "maximum": READ_MAX_CHARS,
            },
        },
        required=("collection", "document"),
    )


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same arguments for a provider's strict mode: every one is required, and null stands for left out."""
    required: Sequence[str] = schema["required"]
    properties: dict[str, Any] = {}
    for name, value in schema["properties"].items():
        plain = {key: part for key, part in value.items() if key not in _BOUNDS}
        properties[name] = plain if name in required else _nullable(plain)
    return _object(properties, required=tuple(properties))


def _nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    changed = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        changed["enum"] = [*schema["enum"], None]
    return changed


def _object(properties: dict[str, Any], *, required: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
