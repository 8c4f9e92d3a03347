"""How far a command is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from knowledge_worker.cli.output import safe_line

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SAY_S: Final = 2.0


class Progress:
    """A bar on a terminal, a line now and then elsewhere; nothing but problems when it is not shown."""

    def __init__(self, bar: Bar | None, *, lines: bool, say_s: float) -> None:
        self.live = bar is not None
        self._bar = bar
        self._lines = lines
        self._task = None if bar is None else bar.add_task("", total=None)
        self._say_s = say_s
        self._say_at = time.monotonic() + say_s

    def say(self, line: str) -> None:
        """Show one line that stays."""
        if self._bar is None:
            click.echo(safe_line(line), err=True)
        else:
            self._bar.console.print(safe_line(line), markup=False, highlight=False, soft_wrap=True)

    def show(self, text: str, *, done: int, total: int | None) -> None:
        """Show how far it is."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=safe_line(text), completed=done, total=total)
        elif self._lines and time.monotonic() > self._say_at:
            self._say_at = time.monotonic() + self._say_s
            click.echo(safe_line(text), err=True)


@contextmanager
def shown_progress(name: str, *, shown: bool, say_s: float | None = None) -> Generator[Progress]:
    """A display on standard error for what is called ``name``, gone at the end.

    Args:
        shown: False for programs.
        say_s: between lines where there is no terminal.
    """
    say_s = SAY_S if say_s is None else say_s
    if not shown or not sys.stderr.isatty():
        yield Progress(None, lines=shown, say_s=say_s)
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bar

    text = TextColumn("{task.description}", markup=False)
    with Bar(SpinnerColumn(), text, BarColumn(), console=Console(stderr=True), transient=True) as bar:
        progress = Progress(bar, lines=False, say_s=say_s)
        progress.show(name, done=0, total=None)
        yield progress
