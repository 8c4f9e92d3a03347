"""``knowledge-worker passes NAME``: the last passes of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from knowledge_worker.cli.options import json_option, opened, settings_from, shared_options
from knowledge_worker.cli.output import ago, echo_json, safe_line, table, took, views
from knowledge_worker.cli.status import failing_since, next_attempt

if TYPE_CHECKING:
    from knowledge_worker.domain.collection import Collection
    from knowledge_worker.domain.document import FailedDocument
    from knowledge_worker.domain.passes import PassRecord

COUNTS = ("read", "added", "changed", "deleted", "skipped", "failed", "embedded", "reused", "calls", "tokens")
COLUMNS = ("ID", "TRIGGER", "OUTCOME", "STARTED", "TOOK", *(name.upper() for name in COUNTS), "ERROR")
NUMBERS = ("ID", *(name.upper() for name in COUNTS))
REPORTS_SHOWN = 20
FAILED_SHOWN = 20


@click.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many, newest first.")
@json_option
@shared_options
@click.pass_context
def passes(ctx: click.Context, name: str, *, limit: int, as_json: bool) -> None:
    """Show the last passes over the collection NAME, what the newest one left out, which documents failed and why,
    since when passes fail, and what happens next."""
    with opened(settings_from(ctx)) as knowledge:
        records = knowledge.passes(name, limit=limit)
        failed = knowledge.failed_documents(name, limit=FAILED_SHOWN)
        collection = knowledge.collection(name)
    if as_json:
        echo_json(views().pass_list_view(records))
    elif not records:
        click.echo(f"No pass over {name} has run yet.")
    else:
        click.echo(table(COLUMNS, [_row(record) for record in records], numbers=NUMBERS))
        for line in (*_left_out(records[0]), *_failed(name, failed), *_what_comes(collection)):
            click.echo(line)


def _row(record: PassRecord) -> list[str]:
    counts = [str(getattr(record.counts, name)) for name in COUNTS]
    started, duration = ago(record.started_at), took(record.started_at, record.ended_at)
    return [str(record.id), record.trigger, record.outcome, started, duration, *counts, record.error or ""]


def _left_out(record: PassRecord) -> list[str]:
    lines = [f"Incomplete: {safe_line(reason)}" for reason in record.reasons]
    lines += [f"Skipped: {safe_line(report)}" for report in record.reports[:REPORTS_SHOWN]]
    more = len(record.reports) - REPORTS_SHOWN
    return [*lines, f"… and {more} more; --json has all that were kept."] if more > 0 else lines


def _failed(name: str, documents: Sequence[FailedDocument]) -> list[str]:
    lines = [f"Failed: {safe_line(one.id)}: {safe_line(one.error)}" for one in documents]
    again = f"They are tried again when they change, or now with: knowledge-worker sync {name} --force"
    return [*lines, again] if lines else []


def _what_comes(one: Collection) -> list[str]:
    lines = [safe_line(one.notice)] if one.notice else []
    if one.failures:
        lines.append(f"Failing since: {failing_since(one)}. Next attempt: {next_attempt(one)}.")
    elif (upcoming := next_attempt(one)) != "-":
        lines.append(f"Next pass: {upcoming}.")
    return lines
