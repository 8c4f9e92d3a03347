"""Numbers of the tools alone."""

from __future__ import annotations

from typing import Final

from knowledge_worker.domain.limits import RESULT_MAX_CHARS

READ_DEFAULT_CHARS: Final = 8_000
READ_MIN_CHARS: Final = 200
READ_MAX_CHARS: Final = RESULT_MAX_CHARS
OUTLINE_MAX: Final = 40
"""Headings that a reading of a long document names."""
