"""A bulk write: lines of documents in, one line of result for each out, memory bounded on both sides."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from knowledge_worker.domain.document import PutResult, checked_id
from knowledge_worker.domain.limits import CONTENT_MAX_CHARS, ID_MAX_CHARS
from knowledge_worker.domain.names import CollectionName
from knowledge_worker.errors import InputTooLargeError, InvalidInputError, KnowledgeError

from .body import parse_object
from .document_views import BulkResultView, BulkSummaryView
from .errors import error_detail, status_of
from .known import refuse_unknown
from .ndjson import Line
from .views import ErrorDetailView

if TYPE_CHECKING:
    from knowledge_worker.knowledge import Knowledge

MEDIA_TYPE: Final = "application/x-ndjson"
GROUP_LINES: Final = 200
"""Lines that are stored together."""
GROUP_BYTES: Final = 4_000_000
_ANSWER_MEMORY_BYTES: Final = 1_048_576
"""A longer answer waits in a file."""
_ANSWER_PART_BYTES: Final = 65_536


class BulkDocument(BaseModel):
    """One line of a bulk write; it describes the line and names its fields, as ``PutRequest`` does for a body."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"id": "setup.md", "content": "Run it."}]}
    )

    id: str = Field(min_length=1, max_length=ID_MAX_CHARS)
    content: str = Field(min_length=1, max_length=CONTENT_MAX_CHARS)
    title: str | None = None
    source: str | None = None
    metadata: dict[str, Any] | None = None


class BulkWrite:
    """Stores groups of lines and keeps what became of each until the whole request was read.

    Many clients send everything before they read anything, so an answer that began earlier could block both sides.

    Args:
        line_max_bytes: only for the message about lines that are longer.
    """

    def __init__(self, knowledge: Knowledge, collection: CollectionName, *, line_max_bytes: int) -> None:
        self._knowledge = knowledge
        self._collection = collection
        self._line_max_bytes = line_max_bytes
        self._answer = tempfile.SpooledTemporaryFile(max_size=_ANSWER_MEMORY_BYTES)  # noqa: SIM115 - until it is sent
        self._accepted = self._unchanged = self._failed = 0

    def store(self, lines: Sequence[Line]) -> None:
        """Store one group; a line that is wrong is refused alone."""
        read = [(line.number, *self._read(line)) for line in lines]
        results = self._put([item for _, item, error in read if item is not None and error is None])
        for number, item, error in read:
            self._note(number, item, next(results) if error is None else error)

    def finish(self) -> int:
        """Write the summary; the length of the answer in bytes."""
        self._write(
            BulkSummaryView(
                documents=self._accepted + self._unchanged + self._failed,
                accepted=self._accepted,
                unchanged=self._unchanged,
                failed=self._failed,
            )
        )
        return self._answer.tell()

    def answer(self) -> Iterator[bytes]:
        """What was written, in parts; it can be taken once."""
        with self._answer as answer:
            answer.seek(0)
            while part := answer.read(_ANSWER_PART_BYTES):
                yield part

    def close(self) -> None:
        """Forget the answer."""
        self._answer.close()

    def _read(self, line: Line) -> tuple[dict[str, Any] | None, KnowledgeError | None]:
        """The document of a line, and why it is refused, as far as the line alone can tell."""
        if line.text is None:
            return None, InputTooLargeError(
                f"The line has more than {self._line_max_bytes} bytes; KNOWLEDGE_BODY_LIMIT sets how many it may have."
            )
        item = None
        try:
            item = parse_object(line.text, called="line")
            refuse_unknown(item, known=BulkDocument.model_fields)
        except InvalidInputError as error:
            return item, error
        return item, None

    def _put(self, items: Sequence[dict[str, Any]]) -> Iterator[PutResult | KnowledgeError]:
        try:
            return self._knowledge.put_documents(self._collection, items)
        except KnowledgeError as error:  # deleted meanwhile, or the database is away: said of each document
            return repeat(error)

    def _note(self, number: int, item: dict[str, Any] | None, result: PutResult | KnowledgeError) -> None:
        if isinstance(result, KnowledgeError):
            self._failed += 1
            view = BulkResultView(
                line=number,
                id=_valid_id(item),
                code=status_of(result),
                error=ErrorDetailView.model_validate(error_detail(result)),
            )
        else:
            self._accepted += result.accepted
            self._unchanged += not result.accepted
            view = BulkResultView(
                line=number,
                id=result.id,
                code=202 if result.accepted else 200,
                status=result.status,
                warnings=list(result.warnings) or None,
            )
        self._write(view)

    def _write(self, view: BulkResultView | BulkSummaryView) -> None:
        self._answer.write(view.model_dump_json(by_alias=True).encode() + b"\n")


def _valid_id(item: dict[str, Any] | None) -> str | None:
    try:
        return None if item is None else checked_id(item.get("id"))
    except InvalidInputError:
        return None
