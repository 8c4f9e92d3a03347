"""``knowledge-worker documents import``: files and folders into a managed collection."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from knowledge_worker.cli import exit_codes
from knowledge_worker.cli.options import json_option, opened, settings_from, shared_options
from knowledge_worker.cli.output import ago, counted, echo_json, sentence
from knowledge_worker.cli.progress import Progress, shown_progress
from knowledge_worker.cli.sync import LONGEST_WAIT_S, Seconds
from knowledge_worker.domain.document import DocumentInput, PutResult
from knowledge_worker.errors import InvalidInputError, ServiceUnavailableError

if TYPE_CHECKING:
    from knowledge_worker.cli.reading_files import ReadFiles
    from knowledge_worker.knowledge import Knowledge

LOOK_S = 0.25
FAILED_SHOWN = 20


@click.command(name="import")
@click.argument("collection")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="PATH...")
@click.option("--prefix", default="", metavar="TEXT", help="Put before each id as it is, such as handbook/.")
@click.option("--extension", "extensions", multiple=True, metavar=".EXT", help="Of files in folders; repeatable.")
@click.option("--wait", "waiting", is_flag=True, help="Wait until all is embedded; exit code 1 when something failed.")
@click.option("--timeout", type=Seconds(min=0, max=LONGEST_WAIT_S), metavar="SECONDS", help="Wait at most so long.")
@json_option
@shared_options
@click.pass_context
def import_documents(
    ctx: click.Context,
    collection: str,
    paths: tuple[Path, ...],
    *,
    prefix: str,
    extensions: tuple[str, ...],
    waiting: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Put files and folders into the managed COLLECTION.

    A folder is read as the folder source reads it: .md, .markdown, .mdx and .txt in UTF-8; what is left out is said.
    The id of a file in a folder is its path below that folder; the id of a file that is named itself is its name. A
    file that did not change costs a comparison. Nothing is deleted. Exit code 1 when a document was refused or a file
    could not be read.
    """
    from knowledge_worker.cli.reading_files import ReadFiles

    counts = Counts()
    problem = None
    with opened(settings_from(ctx)) as knowledge:
        with shown_progress(collection, shown=not as_json) as progress:
            files = ReadFiles(paths, extensions=extensions, prefix=prefix, say=progress.say)
            _import(knowledge, collection, files, counts, progress)
        if not as_json:
            click.echo(f"{collection}: {counts.summary}")
        if waiting:
            with shown_progress(collection, shown=not as_json) as progress:
                problem = _wait(knowledge, collection, timeout, progress)
    if as_json:
        echo_json({"collection": collection, **asdict(counts)} | ({"error": problem} if problem else {}))
    elif problem:
        click.echo(f"Error: {problem}", err=True)
    elif waiting:
        click.echo("All of it is embedded.")
    ctx.exit(exit_codes.FAILED if problem or counts.refused or counts.unreadable else exit_codes.OK)


@dataclass(slots=True)
class Counts:
    """What became of documents and files.

    Attributes:
        unchanged: nothing has to be embedded for them.
        refused: documents that break a rule of the collection.
        skipped: files that were left out by a rule.
        unreadable: files that could not be read.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    refused: int = 0
    skipped: int = 0
    unreadable: int = 0

    @property
    def stored(self) -> int:
        return self.added + self.changed + self.unchanged

    @property
    def summary(self) -> str:
        more = [
            f"{number} {word}"
            for word, number in (("skipped", self.skipped), ("unreadable", self.unreadable))
            if number
        ]
        files = f"; {', '.join(more)}" if more else ""
        return (
            f"{counted(self.stored, 'document')}: {self.added} added, {self.changed} changed, "
            f"{self.unchanged} unchanged; {self.refused} refused{files}."
        )


def _import(knowledge: Knowledge, name: str, files: ReadFiles, counts: Counts, progress: Progress) -> None:
    total = files.count() if progress.live else None
    ids: deque[str] = deque()  # read, and without a result yet: one transaction's worth

    def read() -> Iterator[DocumentInput]:
        for document in files:
            ids.append(document.id)
            yield document

    try:
        for result in knowledge.put_documents(name, read()):
            document_id = ids.popleft()
            if isinstance(result, PutResult):
                _count(counts, result)
                for warning in result.warnings:
                    progress.say(f"Warning: {document_id}: {warning}")
            elif isinstance(result, InvalidInputError):
                counts.refused += 1
                progress.say(f"Refused: {document_id}: {sentence(result.message)}")
            else:
                raise result  # it is said of every document, such as that the database is away
            done = counts.stored + counts.refused
            progress.show(
                f"{name}: {done} of {total} documents" if total else f"{name}: {done} documents so far",
                done=done,
                total=total,
            )
    finally:
        counts.skipped, counts.unreadable = files.skipped, files.unreadable


def _count(counts: Counts, result: PutResult) -> None:
    if result.created:
        counts.added += 1
    elif result.accepted:
        counts.changed += 1
    else:
        counts.unchanged += 1


def _wait(knowledge: Knowledge, name: str, timeout_s: float | None, progress: Progress) -> str | None:
    """Wait until nothing is pending; what went wrong, on one line."""
    until = None if timeout_s is None else time.monotonic() + timeout_s
    collection = knowledge.collection(name)
    failed_before = collection.retry_at  # another one after every failure
    while pending := collection.documents.pending:
        if collection.error is not None and (collection.broken or collection.retry_at != failed_before):
            retry = f" The next attempt is {ago(collection.retry_at)}." if collection.retry_at else ""
            return f"{counted(pending, 'document')} not embedded yet: {sentence(collection.error)}{retry}"
        if until is not None and time.monotonic() > until:
            raise ServiceUnavailableError(
                f"The documents are stored but {pending} are not embedded yet; see: knowledge-worker status"
            )
        counts = collection.documents
        text = f"{name}: embedding, {counts.ready} of {counts.total} documents ready"
        progress.show(text, done=counts.total - pending, total=counts.total)
        time.sleep(LOOK_S)
        collection = knowledge.collection(name)
    if not collection.documents.failed:
        return None
    for one in knowledge.failed_documents(name, limit=FAILED_SHOWN):
        progress.say(f"Failed: {one.id}: {one.error}")
    return f"{counted(collection.documents.failed, 'document')} of {name} failed."
