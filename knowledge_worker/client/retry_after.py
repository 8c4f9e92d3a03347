"""When the service wants to be asked again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The wait that ``Retry-After`` asks for, in seconds or as an HTTP date; None when it asks for nothing readable."""
    wish = headers.get("retry-after")
    if wish is None:
        return None
    try:
        seconds = float(wish)
    except ValueError:
        due = _date(wish)
        # The answer's own clock, so that two clocks that differ do no harm.
        now = _date(headers.get("date")) or datetime.now(UTC)
        return None if due is None else max(0.0, (due - now).total_seconds())
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _date(value: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(value) if value is not None else None
    except ValueError:
        return None
    return date.replace(tzinfo=UTC) if date is not None and date.tzinfo is None else date
