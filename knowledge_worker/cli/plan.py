"""``knowledge-worker plan NAME``: what a pass would do, without doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from knowledge_worker.cli.options import json_option, opened, settings_from, shared_options
from knowledge_worker.cli.output import echo_json, safe_line, views

if TYPE_CHECKING:
    from knowledge_worker.domain.plan import Plan

REPORTS_SHOWN = 20


@click.command()
@click.argument("name")
@json_option
@shared_options
@click.pass_context
def plan(ctx: click.Context, name: str, *, as_json: bool) -> None:
    """Show what a pass over the collection NAME would do now.

    Reads the sources and the index; writes nothing and embeds nothing.
    """
    with opened(settings_from(ctx)) as knowledge:
        found = knowledge.plan(name)
    if as_json:
        echo_json(views().plan_view(found))
        return
    for line in _lines(found):
        click.echo(line)


def _lines(plan: Plan) -> list[str]:
    price = "" if plan.price is None else f", price {plan.price:.4f}"
    lines = [
        f"{plan.collection}: {plan.read} read, {plan.added} to add, {plan.changed} changed, "
        f"{plan.unchanged} unchanged, {plan.deleted} to delete, {plan.skipped} skipped.",
        f"To embed with {plan.model}: {plan.passages} passages of {plan.documents} documents, "
        f"about {plan.tokens} tokens{price}.",
    ]
    if plan.reembeds:
        lines.append("The model or the chunker changed: everything is embedded again beside what is served now.")
    if plan.deletes_held_back:
        lines.append("The deletions are more than max_delete_ratio allows; they would wait for --confirm-deletes.")
    lines += [f"Incomplete, so nothing would be deleted: {safe_line(reason)}" for reason in plan.reasons]
    lines += [f"Skipped: {safe_line(report)}" for report in plan.reports[:REPORTS_SHOWN]]
    return lines
