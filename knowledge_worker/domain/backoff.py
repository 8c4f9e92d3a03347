"""When a failed collection is tried again (specification rule 24)."""

from __future__ import annotations


def wait_ms(failures: int, *, first_ms: int, longest_ms: int, at_least_ms: int | None = None) -> int:
    """The wait after the ``failures``-th failure in a row.

    Args:
        failures: failures in a row, the last one included; 1 or more.
        first_ms: the wait after the first one; it doubles with each further one.
        longest_ms: the doubling stops here.
        at_least_ms: the provider's own wish (``Retry-After``); it may exceed ``longest_ms``.

    Returns:
        Milliseconds: with the defaults 5, 10, 20, 40, 80, 160, 300, 300 … seconds.
    """
    wait = min(longest_ms, first_ms << min(failures - 1, 40))
    return max(wait, at_least_ms or 0)
