"""``knowledge-worker sync NAME``: ask for a pass now."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from knowledge_worker.cli import exit_codes
from knowledge_worker.cli.options import json_option, opened, settings_from, shared_options
from knowledge_worker.cli.output import ago, counted, echo_json, safe_line, sentence, views

if TYPE_CHECKING:
    from knowledge_worker.domain.collection import Collection


LONGEST_WAIT_S = 2_147_483


class Seconds(click.FloatRange):
    """A number of seconds; NaN compares as being in every range."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or a usage error."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is no number of seconds.", param, ctx)
        return seconds


@click.command()
@click.argument("name")
@click.option("--wait", "waiting", is_flag=True, help="Wait until the pass is done; exit code 1 when it failed.")
@click.option("--force", is_flag=True, help="Do not wait for the backoff, and try failed documents again.")
@click.option("--confirm-deletes", is_flag=True, help="Allow the deletions that the declaration's limit holds back.")
@click.option("--timeout", type=Seconds(min=0, max=LONGEST_WAIT_S), metavar="SECONDS", help="Wait at most so long.")
@json_option
@shared_options
@click.pass_context
def sync(
    ctx: click.Context,
    name: str,
    *,
    waiting: bool,
    force: bool,
    confirm_deletes: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Ask for a pass over the collection NAME.

    The request is stored before this returns. While a pass is running it asks for exactly one more after it.
    """
    with opened(settings_from(ctx)) as knowledge:
        request = knowledge.sync(name, force=force, confirm_deletes=confirm_deletes)
        if not waiting:
            if as_json:
                echo_json({"name": name, "request": request})
            else:
                click.echo(f"Asked for a pass over {name}.")
            return
        timeout_ms = None if timeout is None else round(1000 * timeout)
        with _progress(name, shown=not as_json) as report:
            collection = knowledge.wait(name, request, timeout_ms=timeout_ms, on_progress=report)
    if as_json:
        echo_json(views().collection_view(collection))
    elif collection.error is None:
        click.echo(_summary(collection))
    else:
        click.echo(f"Error: the pass over {name} failed: {sentence(collection.error)} {_retry(collection)}", err=True)
    ctx.exit(exit_codes.OK if collection.error is None else exit_codes.FAILED)


def _summary(collection: Collection) -> str:
    counts = collection.documents
    failed = f", {counts.failed} failed" if counts.failed else ""
    incomplete = "".join(f"\nIncomplete: {safe_line(reason)}" for reason in collection.incomplete)
    notice = f"\n{safe_line(collection.notice)}" if collection.notice else ""
    return (
        f"{collection.name}: {counted(counts.ready, 'document')} ready{failed}, "
        f"{counted(collection.chunks, 'passage')}.{incomplete}{notice}"
    )


def _retry(collection: Collection) -> str:
    if collection.broken:
        return "Nothing is tried again until it is declared anew."
    return f"The next attempt is {ago(collection.retry_at)}." if collection.retry_at else ""


@contextmanager
def _progress(name: str, *, shown: bool) -> Generator[Callable[[Collection], None] | None]:
    """A live line on a terminal; nothing elsewhere."""
    if not shown or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), console=Console(stderr=True), transient=True
    ) as progress:
        task = progress.add_task(f"{name}: waiting for a worker", total=None)

        def report(collection: Collection) -> None:
            counts = collection.documents
            doing = "embedding" if counts.pending else "reading" if collection.running else "waiting for a worker"
            text = f"{name}: {doing}, {counts.ready} of {counts.total} documents ready"
            settled = counts.ready + counts.failed
            progress.update(task, description=text, total=counts.total or None, completed=settled)

        yield report
