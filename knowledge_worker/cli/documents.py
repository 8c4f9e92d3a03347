"""``knowledge-worker documents``: put, get, list and delete documents; ``import`` is in :mod:`.import_documents`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from knowledge_worker.cli.import_documents import import_documents
from knowledge_worker.cli.options import json_option, opened, settings_from, shared_options
from knowledge_worker.cli.output import ago, counted, document_views, echo_json, safe_line, safe_text, table
from knowledge_worker.domain.document import DocumentStatus
from knowledge_worker.domain.limits import CONTENT_MAX_CHARS, LIST_DEFAULT, LIST_MAX
from knowledge_worker.errors import InvalidInputError

if TYPE_CHECKING:
    from knowledge_worker.domain.document import Document

COLUMNS = ("ID", "STATUS", "TITLE", "CHANGED", "ERROR")
UTF8_MAX_BYTES = 4


@click.group()
@shared_options
def documents() -> None:
    """Put, get, list, delete and import documents.

    Reading works in every collection, writing in managed ones.
    """


documents.add_command(import_documents)


@documents.command()
@click.argument("collection")
@click.argument("id")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path), default="-")
@click.option("--title", metavar="TEXT", help="Shown with each passage.")
@click.option("--source", metavar="TEXT", help="Where a person finds it, such as an address.")
@click.option("--metadata", metavar="JSON", help="A JSON object, kept and shown; searches can be filtered by it.")
@json_option
@shared_options
@click.pass_context
def put(
    ctx: click.Context,
    collection: str,
    id: str,  # noqa: A002 - what it is called everywhere else
    *,
    file: Path,
    title: str | None,
    source: str | None,
    metadata: str | None,
    as_json: bool,
) -> None:
    """Put the text of FILE, or of standard input, into COLLECTION as the document ID.

    It is stored before the command returns and embedded in the background; the same text again costs nothing.
    """
    values = _json_object(metadata)
    content = _read(file)
    with opened(settings_from(ctx)) as knowledge:
        result = knowledge.put_document(collection, id, content, title=title, source=source, metadata=values)
    if as_json:
        echo_json(document_views().put_view(result))
        return
    doing = "stored, to be embedded" if result.accepted else "nothing to embed"
    click.echo(f"{safe_line(id)}: {doing}; it is {result.status}.")
    for warning in result.warnings:
        click.echo(f"Warning: {safe_line(warning)}", err=True)


@documents.command()
@click.argument("collection")
@click.argument("id")
@json_option
@shared_options
@click.pass_context
def get(ctx: click.Context, collection: str, id: str, *, as_json: bool) -> None:  # noqa: A002
    """Print the content of the document ID of COLLECTION, byte for byte where no terminal shows it."""
    with opened(settings_from(ctx)) as knowledge:
        found = knowledge.get_document(collection, id)
    if as_json:
        echo_json(document_views().document_view(found))
    else:
        _write(found.content or "")


@documents.command(name="list")
@click.argument("collection")
@click.option("--status", type=click.Choice([str(status) for status in DocumentStatus]), help="Only these.")
@click.option(
    "--limit", type=click.IntRange(1, LIST_MAX), default=LIST_DEFAULT, show_default=True, help="The most to list."
)
@click.option("--offset", type=click.IntRange(0), default=0, show_default=True, help="How many to skip.")
@json_option
@shared_options
@click.pass_context
def list_documents(
    ctx: click.Context, collection: str, *, status: str | None, limit: int, offset: int, as_json: bool
) -> None:
    """List documents of COLLECTION by id, without their content."""
    with opened(settings_from(ctx)) as knowledge:
        page = knowledge.list_documents(collection, status=status, limit=limit, offset=offset)
    if as_json:
        echo_json(document_views().document_list_view(page))
        return
    if page.documents:
        click.echo(table(COLUMNS, [_row(one) for one in page.documents]))
    after = page.offset + len(page.documents)
    more = f"; --offset {after} lists more" if page.documents and after < page.total else ""
    shown = f"{len(page.documents)} of " if len(page.documents) < page.total else ""
    click.echo(f"{shown}{counted(page.total, 'document')}{more}.", err=bool(page.documents))


@documents.command()
@click.argument("collection")
@click.argument("id")
@shared_options
@click.pass_context
def delete(ctx: click.Context, collection: str, id: str) -> None:  # noqa: A002
    """Delete the document ID of COLLECTION; it is gone from the next search."""
    with opened(settings_from(ctx)) as knowledge:
        knowledge.delete_document(collection, id)
    click.echo(f"Deleted {safe_line(id)}.")


def _row(one: Document) -> list[str]:
    return [one.id, one.status, one.title or "", ago(one.updated_at), one.error or ""]


def _json_object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise click.BadParameter('is no JSON object: write it as \'{"team": "platform"}\'.', param_hint="--metadata")
    return cast("dict[str, Any]", value)


def _read(file: Path) -> str:
    """The text of a file or of standard input; a UTF-8 byte-order mark is stripped."""
    shown = "Standard input" if str(file) == "-" else safe_line(str(file))
    try:
        with click.open_file(str(file), "rb") as stream:
            # A text that is too long is not read to its end to say so.
            data = stream.read(UTF8_MAX_BYTES * (CONTENT_MAX_CHARS + 1))
    except OSError as error:
        raise InvalidInputError(f"{shown} cannot be read: {error.strerror}.", field="content") from error
    if len(data) == UTF8_MAX_BYTES * (CONTENT_MAX_CHARS + 1):
        raise InvalidInputError(f"{shown} has more than {CONTENT_MAX_CHARS} characters.", field="content")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{shown} is not UTF-8.", field="content") from None


def _write(content: str) -> None:
    if sys.stdout.isatty():
        click.echo(safe_text(content))
        return
    # Past the encoding and the line ends of standard output, and past click, which takes colours away.
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:
        sys.stdout.write(content)
    else:
        raw.write(content.encode())
