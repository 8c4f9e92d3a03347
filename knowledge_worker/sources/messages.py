"""Words about a foreign error that may be stored and logged: one short line, no credentials."""

from __future__ import annotations

import re

from knowledge_worker.domain.document import storable

MESSAGE_MAX_CHARS = 300

_USER_INFO = re.compile(r"(?<=://)[^/\s]*@")
_ADDRESS = re.compile(r"[^\s'\"<>]+")
_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def without_credentials(text: str) -> str:
    """``text`` whose URLs lost ``user:password@`` and their query, where keys are often put.

    >>> without_credentials("no answer from https://me:secret@host.example/a?key=1")
    'no answer from https://host.example/a?…'
    """
    return _ADDRESS.sub(_without_query, _USER_INFO.sub("", text))


def _without_query(found: re.Match[str]) -> str:
    scheme, separator, rest = found[0].partition("://")
    address, mark, _ = rest.partition("?")
    return f"{scheme}{separator}{address}?…" if separator and mark else found[0]


def one_line(text: str) -> str:
    """The first line of ``text`` that says something, at most 300 characters.

    Libraries put the statement with its parameters, or the rejected input, on the lines below.
    """
    first = next((line for line in text.splitlines() if line.strip()), "")
    line = storable(_CONTROL.sub(" ", without_credentials(first)).strip())
    return line if len(line) <= MESSAGE_MAX_CHARS else line[: MESSAGE_MAX_CHARS - 1] + "…"


def described(error: BaseException) -> str:
    """An error as ``Type: message``."""
    message = one_line(str(error))
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
