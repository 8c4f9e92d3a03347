"""Read the sources once and bring the stored documents in step with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from knowledge_worker.domain.document import CheckedDocument
from knowledge_worker.domain.passes import PassCounts
from knowledge_worker.ports import KnowledgeSource
from knowledge_worker.sources.ahead import read_ahead
from knowledge_worker.sources.reading import SourcesRead, read_sources
from knowledge_worker.store.protocol import Guard, Store, Work

BATCH_MAX_CHARS: Final = 4_000_000
"""Contents of the documents that are compared at once, together; a single one may be longer."""
BATCH_MAX_S: Final = 5.0
"""What a slow source yields is stored so often, as far as it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """What a read found out.

    Attributes:
        reasons: why it is incomplete; empty when it is complete.
        notice: deletions that were held back and wait for a person.
    """

    reasons: tuple[str, ...]
    notice: str | None


def read_step(
    *,
    store: Store,
    guard: Guard,
    pass_id: int,
    name: str,
    sources: Sequence[KnowledgeSource],
    max_delete_ratio: float | None,
    deletes_confirmed: bool,
    batch_size: int,
    cancelled: Callable[[], bool],
    progress: Callable[[], None],
) -> ReadResult:
    """Store what is new or changed as pending, delete what vanished from a complete read.

    Raises:
        SourceError: a source raised; nothing was deleted.
        ConfigurationError: a source can never work as it is declared.
        LeaseLostError, PassCancelledError: the work must stop.
    """
    owners = source_owners(sources)
    stop = threading.Event()
    read = read_sources(sources, collection=name, cancelled=lambda: stop.is_set() or cancelled())
    ahead = read_ahead(batches(read, batch_size, progress), name=name, stop=stop, cancelled=cancelled)
    recorded = PassCounts()
    reports = 0
    # Closed at once, whatever happens: a source may hold files and connections.
    with store.documents.reading(guard) as reading, closing(ahead) as groups:
        for index, batch in groups:
            kept = frozenset(
                owner for owner, result in zip(owners, read.results[:index], strict=False) if result.incomplete
            )
            compared = reading.store(owners[index], batch, kept_owners=kept)
            for identifier in compared.repeated:
                read.report_repeated(index, identifier)
            counts = compared.counts
            counts.read, recorded.read = read.read - recorded.read, read.read
            counts.skipped, recorded.skipped = read.skipped - recorded.skipped, read.skipped
            store.passes.add(pass_id, Work(counts=counts, reports=list(read.reports[reports:])))
            reports = len(read.reports)
            progress()
        read.finish()
        last = Work(
            counts=PassCounts(read=read.read - recorded.read, skipped=read.skipped - recorded.skipped),
            reports=list(read.reports[reports:]),
        )
        notice = None
        if not read.reasons:
            before, unseen = reading.vanished()
            if unseen and max_delete_ratio is not None and unseen > max_delete_ratio * before and not deletes_confirmed:
                notice = (
                    f"{unseen} of {before} documents are gone from the sources, more than max_delete_ratio "
                    f"{max_delete_ratio:g} allows; nothing was deleted. If that is right, run: "
                    f"knowledge-worker sync {name} --confirm-deletes"
                )
            elif unseen:
                last.counts.deleted = reading.delete_vanished()
        store.passes.add(pass_id, last)
    return ReadResult(reasons=read.reasons, notice=notice)


def source_owners(sources: Sequence[KnowledgeSource]) -> list[str]:
    """A word for each source, to remember whose a document is: its kind and its place among those of that kind.

    Not its fingerprint: a folder that moved or became trusted would make every document change hands.
    """
    kinds = [source.kind for source in sources]
    return [f"{kind}:{kinds[:index].count(kind)}" for index, kind in enumerate(kinds)]


def batches(
    read: SourcesRead, size: int, progress: Callable[[], None] = lambda: None
) -> Generator[tuple[int, list[CheckedDocument]]]:
    """Group the stream by source, number and length of the contents, so that memory is bounded by all three.

    Args:
        progress: called for each document; a slow source is no hanging one.
    """
    current = chars = 0
    batch: list[CheckedDocument] = []
    began = time.monotonic()
    with closing(iter(read)) as documents:
        for index, document in documents:
            progress()
            chars += len(document.content)
            if batch and (
                index != current
                or len(batch) == size
                or chars > BATCH_MAX_CHARS
                or time.monotonic() - began > BATCH_MAX_S
            ):
                yield current, batch
                batch, chars, began = [], len(document.content), time.monotonic()
            current = index
            batch.append(document)
    if batch:
        yield current, batch
