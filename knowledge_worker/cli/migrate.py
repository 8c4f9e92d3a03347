"""``knowledge-worker migrate``: bring the database to this version's tables."""

from __future__ import annotations

import click

from knowledge_worker.cli.options import json_option, opened, settings_from, shared_options, without_servers
from knowledge_worker.cli.output import echo_json


@click.command()
@json_option
@shared_options
@click.pass_context
def migrate(ctx: click.Context, as_json: bool) -> None:
    """Create or bring forward the tables.

    Several at once are safe, and so is running it again. It never embeds and loses nothing.
    """
    settings = without_servers(settings_from(ctx, needs=("database",)))
    # The tables do not depend on what is declared, so a broken declaration does not keep them back.
    with opened(settings.model_copy(update={"app": None, "docs": ()})) as knowledge:
        revision = knowledge.migrate()
    if as_json:
        echo_json({"revision": revision})
    else:
        click.echo(f"The database is at revision {revision}.")
