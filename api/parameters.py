"""The parameters that several routes share."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from fastapi import Path
from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from knowledge_worker.domain.limits import ID_MAX_CHARS
from knowledge_worker.domain.names import CollectionName, collection_name
from knowledge_worker.errors import CollectionNotFoundError, InvalidInputError

COUNT_MAX: Final = 2**63 - 1
"""What PostgreSQL counts to."""

NAME_PATTERN: Final = "^[a-z0-9]+(-[a-z0-9]+)*$"
"""For descriptions; the rule itself is :func:`~knowledge_worker.domain.names.collection_name`."""

_SHOWN_NAME_MAX_CHARS: Final = 80
_WHOLE_NUMBER: Final = re.compile("-?[0-9]{1,20}")

NameInPath: TypeAlias = Annotated[str, Path(description="The collection's name.", examples=["handbook"])]

IdInPath: TypeAlias = Annotated[
    str,
    Path(
        alias="id",
        description="The document's id, percent-encoded once: `guides/setup.md` is `guides%2Fsetup.md`.",
        examples=["setup.md"],
        # Only described here; what breaks it is refused by the rule for ids, before the collection is looked for.
        json_schema_extra={"minLength": 1, "maxLength": ID_MAX_CHARS, "pattern": r"^[^\u0000]+$"},
    ),
]


def _digits(value: object) -> object:
    """Pydantic also takes ``1_000``, ``1.0`` and spaces for integers."""
    if isinstance(value, str) and not _WHOLE_NUMBER.fullmatch(value):
        raise PydanticCustomError("int_parsing", "Input should be a valid integer of at most 20 digits")
    return value


DIGITS: Final = BeforeValidator(_digits)
"""Has an integer in a query string be written in digits. It stands behind the integer's bounds: OpenAPI has no name for
bounds that come after a function."""

Absent: TypeAlias = SkipJsonSchema[None]
"""What a query parameter is when it was left out; nothing in a query string is null."""


def existing_name(name: str) -> CollectionName:
    """A name that a collection can have.

    Raises:
        CollectionNotFoundError: the name breaks the rule, so no collection has it.
    """
    try:
        return collection_name(name)
    except InvalidInputError:
        raise CollectionNotFoundError(name[:_SHOWN_NAME_MAX_CHARS]) from None
