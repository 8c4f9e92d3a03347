"""Newline-delimited JSON on its way in: bytes as they come, cut into lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line.

    Attributes:
        number: from 1; every line counts.
        text: without its end; None when it was too long to be kept.
    """

    number: int
    text: bytes | None


class LineCutter:
    """Cuts a stream into lines that end in LF or CRLF, blank ones left out.

    Args:
        max_bytes: of a line. A longer one is passed over up to its end; of it nothing is kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._number = 0
        self._held = bytearray()
        self._too_long = False

    def feed(self, part: bytes) -> Iterator[Line]:
        """The lines that are whole with these bytes."""
        start = 0
        while (end := part.find(b"\n", start)) >= 0:
            self._hold(part[start:end])
            yield from self._cut()
            start = end + 1
        self._hold(part[start:])

    def end(self) -> Iterator[Line]:
        """The last line, where its end is missing."""
        if self._held or self._too_long:
            yield from self._cut()

    def _hold(self, piece: bytes) -> None:
        if self._too_long:
            return
        self._held += piece
        if len(self._held) > self._max_bytes + 1:  # the one more may be the CR
            self._too_long = True
            self._held.clear()

    def _cut(self) -> Iterator[Line]:
        self._number += 1
        text = bytes(self._held.removesuffix(b"\r"))
        too_long = self._too_long or len(text) > self._max_bytes
        self._held.clear()
        self._too_long = False
        if too_long:
            yield Line(number=self._number, text=None)
        elif text.strip(b" \t"):
            yield Line(number=self._number, text=text)
