"""The arguments a model wrote, checked; what is wrong is said in words that a model can act on."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from knowledge_worker.errors import InvalidInputError

_SHOWN_CHARS = 80


def decoded(arguments: object) -> dict[str, object]:
    """The arguments as a mapping; those that are null count as left out.

    Args:
        arguments: a mapping, JSON text as models write it, or None.

    Raises:
        InvalidInputError: it is no JSON object.
    """
    value = arguments
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            raise InvalidInputError("The arguments are no JSON; write one JSON object.") from None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInputError("The arguments are one JSON object.")
    return {str(key): given for key, given in cast("Mapping[object, object]", value).items() if given is not None}


def refuse_unknown(arguments: Mapping[str, object], known: Collection[str]) -> None:
    """Check that only ``known`` arguments were given.

    Raises:
        InvalidInputError: one is not; names those there are.
    """
    for name in arguments:
        if name not in known:
            raise InvalidInputError(
                f'There is no argument "{_shown(name)}"; there are: {", ".join(known)}.', field=name
            )


def text(arguments: Mapping[str, object], name: str) -> str:
    """A text that must be given.

    Raises:
        InvalidInputError: it is missing, empty, or no text.
    """
    value = arguments.get(name)
    if value is None or value == "":
        raise InvalidInputError(f"{name} is missing.", field=name)
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} is text.", field=name)
    return value


def whole(arguments: Mapping[str, object], name: str, *, least: int, most: int | None = None) -> int | None:
    """A whole number, or None when it was left out.

    Raises:
        InvalidInputError: it is none, or out of range.
    """
    value = arguments.get(name)
    if value is None:
        return None
    number = _whole(value)
    if number is None or number < least or (most is not None and number > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidInputError(f"{name} is a whole number {bounds}.", field=name)
    return number


def wholes(arguments: Mapping[str, object], name: str) -> list[int] | None:
    """A list of whole numbers, or None when it was left out or is empty.

    Raises:
        InvalidInputError: it is something else.
    """
    value = arguments.get(name)
    if value is None or value == []:
        return None
    numbers = [_whole(one) for one in _list(value, name)]
    if None in numbers:
        raise InvalidInputError(f"{name} is a list of whole numbers.", field=name)
    return cast("list[int]", numbers)


def texts(arguments: Mapping[str, object], name: str) -> list[str] | None:
    """A list of texts, or None when it was left out or is empty; a text alone is a list of one.

    Raises:
        InvalidInputError: it is something else.
    """
    value = arguments.get(name)
    if value is None or value in ([], ""):
        return None
    values = [value] if isinstance(value, str) else _list(value, name)
    if not all(isinstance(one, str) for one in values):
        raise InvalidInputError(f"{name} is a list of texts.", field=name)
    return cast("list[str]", values)


def _list(value: object, name: str) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidInputError(f"{name} is a list.", field=name)
    return list(cast("Sequence[Any]", value))


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return int(value) if abs(value) < 2**53 and int(value) == value else None  # models write 5.0 for 5


def _shown(name: str) -> str:
    return name[:_SHOWN_CHARS].encode("ascii", "backslashreplace").decode()
