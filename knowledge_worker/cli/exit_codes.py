"""What the command's exit code means; the same table is at the end of ``knowledge-worker --help``."""

from __future__ import annotations

from typing import Final

from knowledge_worker.errors import (
    ConfigurationError,
    EmbeddingUnavailableError,
    InvalidInputError,
    KnowledgeError,
    NotFoundError,
    ServiceUnavailableError,
)

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
UNAVAILABLE: Final = 4
INTERRUPTED: Final = 130

MEANINGS: Final = (
    (OK, "fine"),
    (FAILED, "failed; the message says why"),
    (USAGE, "wrong use or configuration"),
    (NOT_FOUND, "what was named is not there"),
    (UNAVAILABLE, "a service does not answer: try again"),
    (INTERRUPTED, "interrupted by Ctrl-C"),
)


def exit_code(error: KnowledgeError) -> int:
    """The code for an error."""
    match error:
        case ConfigurationError() | InvalidInputError():
            return USAGE
        case NotFoundError():
            return NOT_FOUND
        case ServiceUnavailableError() | EmbeddingUnavailableError():
            return UNAVAILABLE
        case _:
            return FAILED
