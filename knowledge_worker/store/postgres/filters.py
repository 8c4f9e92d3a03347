"""Filters as SQL over ``documents``."""

from __future__ import annotations

import json
from typing import Final

from knowledge_worker.domain.filters import Condition, Filters

_COMPARED: Final = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def filter_sql(filters: Filters, alias: str) -> tuple[str, dict[str, object]]:
    """A condition and its parameters.

    Args:
        alias: of the table ``documents``.

    Returns:
        SQL that is true of the documents that pass, ``"true"`` for all; every value is a parameter.
    """
    parts: list[str] = []
    values: dict[str, object] = {}
    if filters.id_prefix is not None:
        parts.append(f"starts_with({alias}.document_id, :f_prefix)")
        values["f_prefix"] = filters.id_prefix
    if filters.source is not None:
        parts.append(f"{alias}.source = :f_source")
        values["f_source"] = filters.source
    for number, condition in enumerate(filters.metadata):
        parts.append(_condition(condition, alias, f"f_{number}", values))
    return " and ".join(parts) or "true", values


def _condition(condition: Condition, alias: str, name: str, values: dict[str, object]) -> str:
    metadata = f"{alias}.metadata"
    match condition.operator:
        case "eq" | "in":
            wanted = condition.value if isinstance(condition.value, tuple) else (condition.value,)
            alternatives: list[str] = []
            for number, value in enumerate(wanted):
                # Containment, so that the index on metadata helps; a list in the metadata holds each of its values.
                for form, held in (("one", value), ("list", [value])):
                    parameter = f"{name}_{number}_{form}"
                    values[parameter] = json.dumps({condition.key: held})
                    alternatives.append(f"{metadata} @> cast(:{parameter} as jsonb)")
            return f"({' or '.join(alternatives)})"
        case "exists":
            values[name] = condition.key
            return f"{'' if condition.value else 'not '}jsonb_exists({metadata}, :{name})"
        case "gt" | "gte" | "lt" | "lte":
            values[f"{name}_key"] = condition.key
            values[name] = json.dumps(condition.value)
            # jsonb has an order over all kinds; values of another kind than the bound's are no match.
            value = f"{metadata} -> :{name}_key"
            return (
                f"(jsonb_typeof({value}) = jsonb_typeof(cast(:{name} as jsonb)) "
                f"and {value} {_COMPARED[condition.operator]} cast(:{name} as jsonb))"
            )
