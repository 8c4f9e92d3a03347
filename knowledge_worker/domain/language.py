"""The languages a collection's words can be taken in: the text search configurations every PostgreSQL 15 has."""

from __future__ import annotations

from typing import Final

from knowledge_worker.errors import InvalidInputError

SIMPLE: Final = "simple"
"""Words as they are written; right for any language and for several at once."""

LANGUAGES: Final = (
    SIMPLE, "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip
"""All but ``simple`` cut words to their stems and leave out words without a meaning of their own."""


def checked_language(value: object) -> str:
    """Check a language.

    Raises:
        InvalidInputError: none of :data:`LANGUAGES`.
    """
    if isinstance(value, str) and value in LANGUAGES:
        return value
    raise InvalidInputError(f"A language is one of: {', '.join(LANGUAGES)}.", field="language")
