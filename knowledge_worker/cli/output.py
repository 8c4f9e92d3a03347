"""What commands print: text that cannot act on the terminal, tables, times for people, JSON for programs."""

from __future__ import annotations

import importlib
import io
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pydantic import BaseModel

# Control characters but tab and line feed, invisible marks that turn the direction of text, lone surrogates.
_ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def safe_text(text: str) -> str:
    """``text`` with everything that a terminal would obey instead of show as U+FFFD."""
    return _ACTING.sub("\ufffd", text.replace("\r\n", "\n"))


def safe_line(text: str) -> str:
    """The same on one line, white space folded."""
    return " ".join(safe_text(text).split())


def sentence(text: str) -> str:
    """A message on one line that ends with a full stop, so that another may follow it."""
    line = safe_line(text)
    return line if line.endswith((".", "!", "?", "…")) else f"{line}."


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as ``1 document`` or ``14 documents``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ago(moment: datetime | None, *, now: datetime | None = None) -> str:
    """How long ago or how far ahead, such as ``3 min ago`` or ``in 12 s``; ``-`` for None."""
    if moment is None:
        return "-"
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    size = abs(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if size >= 2 * length or (unit == "min" and size >= length):
            amount = f"{int(size // length)} {unit}"
            break
    else:
        amount = f"{int(size)} s"
    return f"{amount} ago" if seconds >= 0 else f"in {amount}"


def took(started: datetime, ended: datetime | None) -> str:
    """A duration, such as ``840 ms`` or ``3.2 s``; empty while it has no end."""
    if ended is None:
        return ""
    seconds = (ended - started).total_seconds()
    if seconds < 1:
        return f"{round(1000 * seconds)} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> str:
    """A table as text, as wide as the terminal where there is one.

    Args:
        columns: the headings.
        rows: cells as plain text; they are made safe here.
        numbers: the headings of columns whose cells are numbers.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        drawn.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(safe_line(cell)) for cell in row))
    to_terminal = sys.stdout.isatty()
    # Without a terminal nothing is cut or folded: programs read lines.
    console = Console(
        file=io.StringIO(), force_terminal=to_terminal, width=None if to_terminal else 10_000, legacy_windows=False
    )
    with console.capture() as captured:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def wrapped(text: str, *, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` columns, wide characters counted as two."""
    lines: list[str] = []
    line, used = "", 0
    for word in text.split():
        columns = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in word)
        if line and used + 1 + columns > width:
            lines.append(line)
            line, used = word, columns
        else:
            line, used = (f"{line} {word}", used + 1 + columns) if line else (word, columns)
    return [*lines, line] if line else lines


def views() -> ModuleType:
    """The JSON that the API answers with; ``--json`` prints the same."""
    return _of_api("views")


def document_views() -> ModuleType:
    """The same for documents."""
    return _of_api("document_views")


def _of_api(module: str) -> ModuleType:
    from knowledge_worker._bundled import API_MODULE, load_api

    load_api()
    return importlib.import_module(f"{API_MODULE}.{module}")


def echo_json(view: BaseModel | dict[str, Any]) -> None:
    """Print one JSON document on one line."""
    import json

    from pydantic import BaseModel

    click.echo(view.model_dump_json(by_alias=True) if isinstance(view, BaseModel) else json.dumps(view))
