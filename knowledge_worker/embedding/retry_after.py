"""When a provider wants to be asked again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_LONGEST_MS = 7 * 24 * 3600 * 1000
"""No wish is followed for longer: a date far away is a mistake, and would overflow a due time."""


def retry_after_ms(headers: Mapping[str, str], *, now: datetime | None = None) -> int | None:
    """The wait a provider asks for, from ``retry-after-ms`` or ``Retry-After`` (seconds or an HTTP date).

    Args:
        headers: of its answer; names are looked up as the mapping does.
        now: aware; None takes the answer's own ``Date``, so that two clocks that differ do no harm, else the clock.

    Returns:
        Milliseconds, at least 0 and at most a week; None when it asks for nothing that can be read.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is None:
        wish = headers.get("retry-after")
        seconds = _number(wish)
        if seconds is None:
            due = _date(wish)
            seconds = None if due is None else (due - (now or _date(headers.get("date")) or _utc_now())).total_seconds()
        milliseconds = None if seconds is None else seconds * 1000
    if milliseconds is None:
        return None
    return math.ceil(min(max(milliseconds, 0.0), _LONGEST_MS))


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(value: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(value) if value is not None else None
    except ValueError:
        return None
    return date.replace(tzinfo=UTC) if date is not None and date.tzinfo is None else date


def _utc_now() -> datetime:
    return datetime.now(UTC)
