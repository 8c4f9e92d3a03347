"""The path of a request, percent-decoded exactly once (specification rule 52).

Servers hand over a decoded path, in which ``a%2Fb`` and ``a/b`` are the same. So the raw path is split first and each
segment decoded by itself; the router then sees every segment in one canonical encoding, and :class:`Segment` decodes
the ones that are parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import Scope

BASE: Final = "knowledge"
"""The first segment of every path that needs a token."""

HOOKS: Final = "hooks"
"""Below it the names of webhooks, which need a signature instead."""

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPath:
    """Where a request goes.

    Attributes:
        root: the prefix in front of this application, ``""`` or ``/prefix``.
        segments: what follows it, decoded; None stands for one that cannot be decoded.
    """

    root: str
    segments: tuple[str | None, ...]

    @property
    def below_base(self) -> tuple[str | None, ...] | None:
        """The segments after ``/knowledge``, or None for a path outside of it."""
        return self.segments[1:] if self.segments[:1] == (BASE,) else None

    @property
    def canonical(self) -> str:
        """The path without its prefix, each segment encoded anew; an undecodable one is shown as ``%``."""
        return "/" + "/".join("%" if segment is None else quote(segment, safe="") for segment in self.segments)


class Segment(Convertor[str]):
    """``{name:segment}``: one segment of a canonical path, decoded; it may be empty."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        """Decode the segment; it was encoded by :attr:`RequestPath.canonical`, so this cannot fail."""
        return unquote(value, errors="strict")

    def to_string(self, value: str) -> str:
        """Encode the segment for a link."""
        return quote(value, safe="")


register_url_convertor("segment", Segment())


def decode_segment(raw: str) -> str | None:
    """Percent-decode one segment once, or None where an escape is malformed or the bytes are no UTF-8.

    >>> decode_segment("a%252Fb"), decode_segment("%zz")
    ('a%2Fb', None)
    """
    if _BAD_ESCAPE.search(raw):
        return None
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return None


def request_path(scope: Scope, *, root_path: str) -> RequestPath:
    """Read the path of a request.

    Args:
        scope: of ASGI; its ``raw_path`` is used, and ``path`` only where a server gives no raw one.
        root_path: the configured prefix, used when neither the server nor an outer application tells one.
    """
    raw = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
    # What does not begin with a slash ("*", a whole address) is no path of ours and matches nothing.
    parts = raw.decode("latin-1").removeprefix("/").split("/")
    segments = tuple(decode_segment(part) for part in parts)
    told = str(scope.get("root_path", ""))
    root = _with_slash(told or root_path)
    # A proxy may or may not have removed the prefix, and with one in front of an outer application only the part that
    # the outer application mounted is left.
    mounted = _with_slash(told.removeprefix(str(scope.get("app_root_path", ""))))
    for prefix in (root, mounted):
        outer = tuple(prefix.split("/")[1:])
        if outer and segments[: len(outer)] == outer:
            return RequestPath(root=root, segments=segments[len(outer) :] or ("",))
    return RequestPath(root=root, segments=segments)


def _with_slash(prefix: str) -> str:
    inner = prefix.strip("/")
    return f"/{inner}" if inner else ""
