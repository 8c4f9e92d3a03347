"""``knowledge-worker collections``: list, create and delete collections."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from knowledge_worker.cli import exit_codes
from knowledge_worker.cli.options import json_option, opened, settings_from, shared_options
from knowledge_worker.cli.output import counted, echo_json, safe_line, table, views

if TYPE_CHECKING:
    from knowledge_worker.domain.collection import Collection

COLUMNS = ("COLLECTION", "KIND", "STATUS", "DOCUMENTS", "MODEL", "TITLE")


@click.group(invoke_without_command=True)
@json_option
@shared_options
@click.pass_context
def collections(ctx: click.Context, as_json: bool) -> None:
    """List, create and delete collections; without a further word it lists them.

    Managed collections are created here, over the API or in Python, and filled at run time. Declared ones come from
    code.
    """
    if ctx.invoked_subcommand is not None:
        return
    with opened(settings_from(ctx)) as knowledge:
        found = knowledge.collections()
    if as_json:
        echo_json(views().collection_list_view(found))
    elif found:
        click.echo(table(COLUMNS, [_row(one) for one in found], numbers=("DOCUMENTS",)))
    else:
        click.echo("There are no collections: create one with knowledge-worker collections create NAME.")


@collections.command()
@click.argument("name")
@click.option("--title", metavar="TEXT", help="For people and models; at most 1000 characters.")
@click.option("--description", metavar="TEXT", help="What is in it; at most 2000 characters.")
@click.option("--language", metavar="NAME", default="simple", show_default=True, help="Of its words, such as english.")
@json_option
@shared_options
@click.pass_context
def create(
    ctx: click.Context, name: str, *, title: str | None, description: str | None, language: str, as_json: bool
) -> None:
    """Create the managed collection NAME: empty, untrusted, embedded with the default model.

    The default model is KNOWLEDGE_MODEL, or what the application sets.
    """
    with opened(settings_from(ctx)) as knowledge:
        created = knowledge.create_collection(name, title=title, description=description, language=language)
    if as_json:
        echo_json(views().collection_view(created))
    else:
        click.echo(f"Created {created.name}; it is embedded with {safe_line(created.model)}.")


@collections.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@shared_options
@click.pass_context
def delete(ctx: click.Context, name: str, *, yes: bool) -> None:
    """Delete the managed or orphaned collection NAME with everything in it.

    It asks first on a terminal; elsewhere it wants --yes.
    """
    with opened(settings_from(ctx)) as knowledge:
        if not yes:
            held = counted(knowledge.collection(name).documents.total, "document")
            if not sys.stdin.isatty():
                raise click.UsageError(
                    f"This deletes {name} with {held} for good: add --yes where nobody can be asked."
                )
            if not click.confirm(f"Delete {name} with {held} for good?", err=True):
                click.echo("Nothing was deleted.", err=True)
                ctx.exit(exit_codes.FAILED)
        knowledge.delete_collection(name)
    click.echo(f"Deleted {name}.")


def _row(one: Collection) -> list[str]:
    model = one.model if one.serving is None else one.serving.model
    return [one.name, one.kind, one.status, str(one.documents.total), model, one.title or ""]
