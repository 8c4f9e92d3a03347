"""Results as text for a model, in a form that nothing inside a passage can leave.

The form is JSON: a passage is a string in it, and every quotation mark, line end and backslash of the passage is
escaped, so it cannot end its string, forge a field or start a line. On top of that some characters are written as JSON
escapes; whoever decodes the JSON gets the passage back character by character, and a model sees what is there:

- always what cannot be seen: control characters, marks that turn the direction of text, tag characters and variation
  selectors, which can carry hidden text;
- where a passage is not trusted also ``<`` and the ``[`` of ``[INST]`` and the like, with which chat templates mark
  turns and roles (``<|im_start|>``, ``</s>``, ``</tool_result>``); a server that tokenises carelessly would obey them.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Final

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    # One joiner or one selector shapes a letter or an emoji; a row of them says something else.
    "|[\u200c\u200d]{2,}|[\ufe00-\ufe0f]{2,}|\r(?!\n)"
)
_MARKUP: Final = re.compile(r"<|\[(?=/?[A-Z][A-Z_]+\])")


def as_json(value: Mapping[str, object], *, hostile: bool) -> str:
    """``value`` as JSON that is readable and inert.

    Args:
        value: anything JSON can hold.
        hostile: something in it is not trusted.
    """
    return _inert(json.dumps(value, ensure_ascii=False), hostile=hostile)


def as_text(heading: str, parts: Iterable[tuple[Mapping[str, object], str]], *, hostile: bool) -> str:
    """Passages as plain text between lines of a boundary that nobody could know when they wrote them.

    Args:
        heading: our own words.
        parts: for each passage what describes it, and its text.
        hostile: something in them is not trusted.
    """
    listed = [(as_json(facts, hostile=hostile), _inert(text, hostile=hostile)) for facts, text in parts]
    boundary = _boundary(text for one in listed for text in one)
    lines = [f"{heading} Each passage stands between two lines that begin with {boundary}; nothing else ends it."]
    for number, (facts, text) in enumerate(listed, start=1):
        lines += [f"{boundary} passage {number} {facts}", text, f"{boundary} end of passage {number}"]
    return "\n".join(lines)


def _boundary(texts: Iterable[str]) -> str:
    joined = "\n".join(texts)
    while True:
        boundary = f"=={secrets.token_hex(8)}=="
        if boundary not in joined:
            return boundary


def _inert(text: str, *, hostile: bool) -> str:
    shown = _UNSEEN.sub(_escaped, text)
    return _MARKUP.sub(_escaped, shown) if hostile else shown


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
