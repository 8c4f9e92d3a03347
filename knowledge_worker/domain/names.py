"""What a collection may be called (specification rule 4)."""

from __future__ import annotations

import re
import unicodedata
from typing import NewType

from knowledge_worker.domain.limits import NAME_MAX_CHARS
from knowledge_worker.errors import InvalidInputError

CollectionName = NewType("CollectionName", str)
DocumentId = NewType("DocumentId", str)

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def propose_name(text: str) -> str | None:
    """The nearest allowed name, or None when nothing of ``text`` can stay.

    >>> propose_name("API Docs")
    'api-docs'
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:NAME_MAX_CHARS].rstrip("-")
    return name or None


def collection_name(value: object) -> CollectionName:
    """Check a collection's name.

    Args:
        value: lowercase words of ``[a-z0-9]`` joined by single ``-``, at most 64 characters.

    Returns:
        The same text, typed.

    Raises:
        InvalidInputError: anything else; the message proposes an allowed name where there is one.
    """
    if isinstance(value, str) and len(value) <= NAME_MAX_CHARS and _NAME.fullmatch(value):
        return CollectionName(value)
    rule = f"lowercase words of a-z and 0-9 joined by single '-', at most {NAME_MAX_CHARS} characters"
    if not isinstance(value, str):
        raise InvalidInputError(f"A collection name is text: {rule}.", field="name")
    proposal = propose_name(value[: 4 * NAME_MAX_CHARS])
    hint = f' Try "{proposal}".' if proposal else ""
    shown = value[:80].encode("ascii", "backslashreplace").decode()
    raise InvalidInputError(f'"{shown}" is no collection name: {rule}.{hint}', field="name")
