"""Which passages a search may find: conditions on the documents they come from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict

from knowledge_worker.domain.document import INTEGER_MAX_BITS, storable
from knowledge_worker.domain.limits import ID_MAX_CHARS, TITLE_MAX_CHARS
from knowledge_worker.errors import InvalidInputError

Scalar: TypeAlias = str | int | float | bool | None
Operator: TypeAlias = Literal["eq", "in", "exists", "gt", "gte", "lt", "lte"]

OPERATORS: Final[tuple[Operator, ...]] = ("eq", "in", "exists", "gt", "gte", "lt", "lte")
CONDITIONS_MAX: Final = 20
VALUES_MAX: Final = 100


class Condition(BaseModel):
    """One condition on a key of the metadata.

    Attributes:
        value: of ``eq`` a scalar; of ``in`` several; of ``exists`` a truth; of the others a number or a text, which
            are compared with values of the same kind only.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    operator: Operator
    value: Scalar | tuple[Scalar, ...]


class Filters(BaseModel):
    """All of these must hold; an empty one holds for every document.

    Attributes:
        id_prefix: the document's id begins with it.
        source: is exactly this.
    """

    model_config = ConfigDict(frozen=True)

    metadata: tuple[Condition, ...] = ()
    id_prefix: str | None = None
    source: str | None = None

    def __bool__(self) -> bool:
        return bool(self.metadata) or self.id_prefix is not None or self.source is not None


def checked_filters(value: object) -> Filters:
    """Check filters as a caller writes them.

    Args:
        value: None, or a mapping with ``metadata``, ``id_prefix`` and ``source``. ``metadata`` maps a key to a scalar
            (equal), a list of scalars (any of them), or a mapping of operators: ``{"year": {"gte": 2020}}``.

    Raises:
        InvalidInputError: ``field`` is ``filters``; the message says what is wrong.
    """
    if value is None:
        return Filters()
    if isinstance(value, Filters):
        return value
    if not isinstance(value, Mapping):
        raise _wrong('filters is an object such as {"metadata": {"team": "support"}}.')
    given = cast("Mapping[object, object]", value)
    known = {"metadata", "id_prefix", "source"}
    unknown = [key for key in given if key not in known]
    if unknown:
        raise _wrong(f'filters knows {", ".join(sorted(known))}; not "{str(unknown[0])[:80]}".')
    return Filters(
        metadata=_conditions(given.get("metadata")),
        id_prefix=_text(given.get("id_prefix"), "id_prefix", ID_MAX_CHARS),
        source=_text(given.get("source"), "source", TITLE_MAX_CHARS),
    )


def _conditions(value: object) -> tuple[Condition, ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise _wrong("filters.metadata is an object.")
    conditions: list[Condition] = []
    for key, wanted in cast("Mapping[object, object]", value).items():
        if not isinstance(key, str):
            raise _wrong("A key of filters.metadata is text.")
        name = storable(key)
        if isinstance(wanted, Mapping):
            operators = cast("Mapping[object, object]", wanted)
            if not operators:
                raise _wrong(f"A condition of filters.metadata is empty; operators are {', '.join(OPERATORS)}.")
            conditions += [_condition(name, operator, operand) for operator, operand in operators.items()]
        elif isinstance(wanted, list | tuple):
            conditions.append(_condition(name, "in", cast("Sequence[object]", wanted)))
        else:
            conditions.append(_condition(name, "eq", wanted))
    if len(conditions) > CONDITIONS_MAX:
        raise _wrong(f"filters.metadata has more than {CONDITIONS_MAX} conditions.")
    return tuple(conditions)


def _condition(key: str, operator: object, value: object) -> Condition:
    match operator:
        case "eq":
            return Condition(key=key, operator="eq", value=_scalar(value))
        case "in":
            if not isinstance(value, list | tuple):
                raise _wrong('"in" takes a list.')
            values = cast("Sequence[object]", value)
            if not 1 <= len(values) <= VALUES_MAX:
                raise _wrong(f'"in" takes 1 to {VALUES_MAX} values.')
            return Condition(key=key, operator="in", value=tuple(_scalar(one) for one in values))
        case "exists":
            if not isinstance(value, bool):
                raise _wrong('"exists" takes true or false.')
            return Condition(key=key, operator="exists", value=value)
        case "gt" | "gte" | "lt" | "lte":
            bound = _scalar(value)
            if bound is None or isinstance(bound, bool):
                raise _wrong(f'"{operator}" takes a number or a text.')
            return Condition(key=key, operator=cast("Operator", operator), value=bound)
        case _:
            raise _wrong(f'"{str(operator)[:80]}" is no operator; known are {", ".join(OPERATORS)}.')


def _scalar(value: object) -> Scalar:
    if isinstance(value, str):
        return storable(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= INTEGER_MAX_BITS:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise _wrong("A value of filters.metadata is a text, a number of at most 4000 digits, true, false or null.")


def _text(value: object, field: str, max_chars: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > max_chars:
        raise _wrong(f"filters.{field} is a text of 1 to {max_chars} characters.")
    return storable(value)


def _wrong(message: str) -> InvalidInputError:
    return InvalidInputError(message, field="filters")
