"""Documents: read from any collection, put into and deleted from managed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from knowledge_worker.domain.document import (
    CheckedDocument,
    Document,
    DocumentPage,
    DocumentStatus,
    PutResult,
    checked_document,
    checked_id,
)
from knowledge_worker.domain.limits import LIST_MAX
from knowledge_worker.domain.names import collection_name
from knowledge_worker.errors import InvalidInputError, KnowledgeError
from knowledge_worker.ports import WorkQueue
from knowledge_worker.store.managed import Precondition
from knowledge_worker.store.protocol import Store

PUT_AT_ONCE = 200
"""Documents that one transaction of a bulk write stores."""
PUT_AT_ONCE_CHARS = 4_000_000
_OFFSET_MAX = 2**63 - 1
"""What PostgreSQL counts to."""


class Documents:
    """What one can ask about documents; a nudge follows every commit that leaves something to embed."""

    def __init__(self, *, store: Store, queue: WorkQueue) -> None:
        self._store = store
        self._queue = queue

    def get(self, name: object, document_id: object) -> Document:
        """See :meth:`knowledge_worker.Knowledge.get_document`."""
        identifier = checked_id(document_id)
        return self._store.managed.find_document(collection_name(name), identifier)

    def page(self, name: object, *, status: object, limit: int, offset: int) -> DocumentPage:
        """See :meth:`knowledge_worker.Knowledge.list_documents`."""
        if limit < 1 or offset < 0 or offset > _OFFSET_MAX:
            field = "limit" if limit < 1 else "offset"
            raise InvalidInputError(f"The {field} is out of range.", field=field)
        return self._store.managed.list_documents(
            collection_name(name), status=_status(status), limit=min(limit, LIST_MAX), offset=offset
        )

    def put(self, name: object, item: object, *, precondition: Precondition | None) -> PutResult:
        """See :meth:`knowledge_worker.Knowledge.put_document`."""
        document = checked_document(item, content_min_chars=1)
        checked = collection_name(name)
        result = self._store.managed.put(checked, [document], precondition=precondition)[0]
        if result.status is DocumentStatus.PENDING:
            self._queue.nudge_sync(checked)
        return result

    def put_all(self, name: object, items: Iterable[object]) -> Iterator[PutResult | KnowledgeError]:
        """See :meth:`knowledge_worker.Knowledge.put_documents`."""
        checked = collection_name(name)
        self._store.managed.check_managed(checked)
        return self._put_all(checked, items)

    def _put_all(self, name: str, items: Iterable[object]) -> Iterator[PutResult | KnowledgeError]:
        batch: list[CheckedDocument | KnowledgeError] = []
        ids: set[str] = set()
        chars = 0
        for item in items:
            try:
                document = checked_document(item, content_min_chars=1)
            except InvalidInputError as error:
                document = error
            twice = isinstance(document, CheckedDocument) and document.id in ids
            if twice or len(batch) == PUT_AT_ONCE or chars >= PUT_AT_ONCE_CHARS:
                yield from self._put_batch(name, batch)
                batch, ids, chars = [], set(), 0
            batch.append(document)
            if isinstance(document, CheckedDocument):
                ids.add(document.id)
                chars += len(document.content)
        yield from self._put_batch(name, batch)

    def delete(self, name: object, document_id: object, *, precondition: Precondition | None) -> None:
        """See :meth:`knowledge_worker.Knowledge.delete_document`."""
        identifier = checked_id(document_id)
        self._store.managed.delete_document(collection_name(name), identifier, precondition=precondition)

    def _put_batch(
        self, name: str, batch: list[CheckedDocument | KnowledgeError]
    ) -> Iterator[PutResult | KnowledgeError]:
        documents = [one for one in batch if isinstance(one, CheckedDocument)]
        try:
            stored = iter(self._store.managed.put(name, documents))
        except KnowledgeError as error:  # deleted meanwhile, or the database is away: said of each document
            yield from (one if isinstance(one, KnowledgeError) else error for one in batch)
            return
        results = [one if isinstance(one, KnowledgeError) else next(stored) for one in batch]
        if any(isinstance(one, PutResult) and one.status is DocumentStatus.PENDING for one in results):
            self._queue.nudge_sync(name)
        yield from results


def _status(value: object) -> DocumentStatus | None:
    if value is None:
        return None
    try:
        return DocumentStatus(str(value))
    except ValueError:
        known = ", ".join(DocumentStatus)
        raise InvalidInputError(f"A document's status is one of: {known}.", field="status") from None
