"""What `up` shows: lines of several processes, told apart, and a live display below them."""

from __future__ import annotations

import os
import sys

import click
from rich.console import Console
from rich.text import Text

STYLES = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")
NAME_WIDTH = 8


class Terminal:
    """Standard output: colours and a live display on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self._styles: dict[str, str] = {}
        self._gone = False

    @property
    def is_live(self) -> bool:
        """Whether a person watches."""
        return self.console.is_terminal and not self.console.is_dumb_terminal

    def write(self, name: str, line: str) -> None:
        """Show one line of a child, or our own where ``name`` is empty."""
        if self._gone:
            return
        try:
            if self.is_live:
                self.console.print(self._prefix(name), Text.from_ansi(line), sep="", end="\n")
            else:
                click.echo(f"{name:<{NAME_WIDTH}}| {line}" if name else line)
        except OSError:
            # The terminal was closed or the reader of a pipe has left; the logs still have every line.
            self._gone = True
            with open(os.devnull, "w") as nothing:  # noqa: PTH123
                os.dup2(nothing.fileno(), sys.stdout.fileno())

    def restore(self) -> None:
        """Put the cursor back that a live display hides."""
        if self.is_live:
            self.console.show_cursor()

    def _prefix(self, name: str) -> Text:
        if not name:
            return Text()
        style = self._styles.setdefault(name, STYLES[len(self._styles) % len(STYLES)])
        return Text(f"{name:<{NAME_WIDTH}}| ", style=style)
