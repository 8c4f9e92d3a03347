"""Waiting until a document, or all of a collection, is ready; a flow as in :mod:`knowledge_worker.client.flows`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from knowledge_worker.client import operations
from knowledge_worker.client.flows import Flow, Patience, Sleep, perform
from knowledge_worker.client.models import Collection
from knowledge_worker.domain.collection import CollectionStatus
from knowledge_worker.domain.document import DocumentStatus
from knowledge_worker.errors import CollectionNotIndexedError, EmbeddingError, ServiceUnavailableError

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
GROWTH: Final = 1.5
ENDED_LOOKS: Final = 3
"""A pass that failed may show neither a worker nor a due time for a moment, so that is believed when seen so often."""


def wait_until_ready(
    name: str, document_id: str | None, *, timeout_s: float, allow_stale: bool, patience: Patience
) -> Flow[None]:
    """Look again and again, less and less often.

    Raises:
        EmbeddingError: a document failed.
        CollectionNotIndexedError: nothing indexes the collection.
        ServiceUnavailableError: not ready in time.
    """
    look = (
        _collection_watch(name, allow_stale=allow_stale, patience=patience)
        if document_id is None
        else _document_watch(name, document_id, patience=patience)
    )
    until = patience.now() + timeout_s
    pause = FIRST_PAUSE_S
    while (waits_for := (yield from look())) is not None:
        left = until - patience.now()
        if left <= 0:
            raise ServiceUnavailableError(f"{waits_for} after {timeout_s:g} s.")
        yield Sleep(min(pause, left))
        pause = min(pause * GROWTH, LONGEST_PAUSE_S)


def _document_watch(name: str, document_id: str, *, patience: Patience) -> Callable[[], Flow[str | None]]:
    etag: str | None = None

    def look() -> Flow[str | None]:
        nonlocal etag
        # What did not change since the last look is answered without its content.
        asked = operations.document(name, document_id, if_none_match=etag)
        found = yield from perform(asked, patience)
        if found is not None:
            etag = found.etag
            if found.status == DocumentStatus.READY:
                return None
            if found.status == DocumentStatus.FAILED:
                raise EmbeddingError(f'Document "{document_id}" of "{name}" failed: {found.error or "no reason given"}')
        return f'Document "{document_id}" of "{name}" is still pending'

    return look


def _collection_watch(name: str, *, allow_stale: bool, patience: Patience) -> Callable[[], Flow[str | None]]:
    searchable = {CollectionStatus.READY, CollectionStatus.STALE} if allow_stale else {CollectionStatus.READY}
    ended = 0

    def look() -> Flow[str | None]:
        nonlocal ended
        found = yield from perform(operations.collection(name), patience)
        counts = found.documents
        if found.status in searchable and not counts.pending:
            if counts.failed:
                raise EmbeddingError(
                    f'{counts.failed} of {counts.total} documents of "{name}" failed; '
                    'list them with status="failed", and put them again or sync with force to try again.'
                )
            return None
        if found.status == CollectionStatus.ORPHANED:
            raise CollectionNotIndexedError(f'Knowledge collection "{name}" is orphaned: no code declares it any more.')
        ended = ended + 1 if _ended(found) else 0
        if ended >= ENDED_LOOKS:
            raise CollectionNotIndexedError(f'Knowledge collection "{name}" is not tried again: {found.error}')
        return f'Knowledge collection "{name}" is still {_doing(found)}'

    return look


def _ended(collection: Collection) -> bool:
    return collection.error is not None and collection.retry_at is None and not collection.running


def _doing(collection: Collection) -> str:
    counts = collection.documents
    doing = f"{collection.status}, with {counts.pending} of {counts.total} documents pending"
    return f"{doing}, and its last pass failed: {collection.error}" if collection.error else doing
