"""What a token may do (specification rule 51)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

READ: Final = "knowledge:read"
WRITE: Final = "knowledge:write"


def allows(granted: Iterable[str], needed: str) -> bool:
    """Whether one of the granted permissions covers the needed one.

    Args:
        granted: each is ``:``-separated segments; a lone ``*`` covers everything, ``*`` as a segment covers exactly
            one segment, so the counts of segments must match.
        needed: ``:``-separated segments, without wildcards.

    >>> allows(["knowledge:*"], "knowledge:read"), allows(["knowledge"], "knowledge:read")
    (True, False)
    """
    return any(_covers(permission, needed) for permission in granted)


def _covers(permission: str, needed: str) -> bool:
    if permission == "*":
        return True
    have, want = permission.split(":"), needed.split(":")
    return len(have) == len(want) and all(a in ("*", b) for a, b in zip(have, want, strict=True))
