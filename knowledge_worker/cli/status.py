"""``knowledge-worker status``: every collection and how it is doing."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from knowledge_worker.cli import exit_codes
from knowledge_worker.cli.options import json_option, opened, settings_from, shared_options
from knowledge_worker.cli.output import ago, counted, echo_json, safe_line, table, views

if TYPE_CHECKING:
    from knowledge_worker.domain.collection import Collection
    from knowledge_worker.knowledge import Knowledge

COLUMNS = (
    "COLLECTION", "STATUS", "DOCUMENTS", "PENDING", "FAILED", "LAST PASS", "FAILING SINCE", "NEXT ATTEMPT", "ERROR"
)  # fmt: skip
NUMBERS = ("DOCUMENTS", "PENDING", "FAILED")
WATCH_EVERY_S = 1.0


@click.command()
@json_option
@click.option("--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
@shared_options
@click.pass_context
def status(ctx: click.Context, as_json: bool, watch: bool) -> None:
    """Show every collection: status, documents, last pass, since when it fails, next attempt and error.

    Below the table it names what is missing, as /readyz does: queues without a worker, beat, and documents of dead
    workers.
    """
    with opened(settings_from(ctx)) as knowledge:
        try:
            while True:
                collections = knowledge.collections()
                if watch and not as_json and sys.stdout.isatty():
                    click.clear()
                missing = knowledge.readiness(patient=False)
                warnings = knowledge.warnings()
                if as_json:
                    echo_json(views().status_view(collections, missing, warnings))
                else:
                    click.echo(_text(knowledge, collections))
                    for line in [*(f"Missing: {one}" for one in missing), *(f"Warning: {one}" for one in warnings)]:
                        click.echo(safe_line(line))
                if not watch:
                    return
                sys.stdout.flush()
                time.sleep(WATCH_EVERY_S)
        except KeyboardInterrupt:
            if not watch:
                raise
            ctx.exit(exit_codes.OK)


def _text(knowledge: Knowledge, collections: list[Collection]) -> str:
    if not collections:
        return "There are no collections: declare one with --docs PATH or --app MODULE:ATTRIBUTE."
    lines = [table(COLUMNS, [_row(knowledge, one) for one in collections], numbers=NUMBERS)]
    for one in collections:
        lines += [f"{one.name}: {safe_line(text)}" for text in ([one.notice] if one.notice else [])]
        lines += [f"{one.name}: incomplete: {safe_line(reason)}" for reason in one.incomplete]
        if one.documents.failed:
            failed = counted(one.documents.failed, "document")
            lines.append(f"{one.name}: {failed} failed; why, says: knowledge-worker passes {one.name}")
    return "\n".join(lines)


def _row(knowledge: Knowledge, one: Collection) -> list[str]:
    counts = one.documents
    return [
        one.name,
        one.status,
        str(counts.total),
        str(counts.pending),
        str(counts.failed),
        _last_pass(knowledge, one),
        failing_since(one),
        next_attempt(one),
        one.error or "",
    ]


def _last_pass(knowledge: Knowledge, one: Collection) -> str:
    if one.key == 0:
        return "-"  # declared here and not stored yet
    newest = next(iter(knowledge.passes(one.name, limit=1)), None)
    if newest is None:
        return "-"
    return newest.outcome if newest.ended_at is None else f"{newest.outcome}, {ago(newest.ended_at)}"


def failing_since(one: Collection) -> str:
    """When the first failure in a row was and how many there are, such as ``2 min ago (3 times)``."""
    if not one.failures:
        return "-"
    return ago(one.failed_at) if one.failures == 1 else f"{ago(one.failed_at)} ({one.failures} times)"


def next_attempt(one: Collection) -> str:
    """When something is done next, in a few words; ``-`` when nothing is to be done."""
    if one.running is not None:
        return "now"
    if one.broken:
        return "when declared anew"
    if one.retry_at is not None:
        return ago(one.retry_at)
    if one.requested > one.done:
        return "asked for"
    if one.resync_ms is not None and one.synced_at is not None:
        return ago(one.synced_at + timedelta(milliseconds=one.resync_ms))
    return "-"
