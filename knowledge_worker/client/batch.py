"""Many documents in requests of bounded size, and the answers matched to them; see ``put_many`` for the rules."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from knowledge_worker.client.exchange import BUSY, Reply
from knowledge_worker.client.models import BatchResult
from knowledge_worker.client.operations import encode
from knowledge_worker.client.problems import problem_of
from knowledge_worker.domain.document import DocumentInput, checked_id
from knowledge_worker.errors import InvalidInputError, KnowledgeError, ServiceUnavailableError

BATCH_DOCUMENTS: Final = 500
"""The most documents of one request."""
BATCH_BYTES: Final = 4 * 1024 * 1024
"""No document is added to a request that has so many bytes; so much is held in memory, and sent again."""

FIELDS: Final = ("id", "content", "title", "source", "metadata")


@dataclass(slots=True, kw_only=True)
class Sending:
    """A document on its way.

    Attributes:
        line: of the request's body, with its line feed; empty when the document cannot be sent.
        result: None until it is known what became of it.
        final: whether the result stands; one that says "not now" does not, and the document may be sent again.
    """

    position: int
    id: str
    line: bytes
    result: BatchResult | None = None
    final: bool = False


def sending(document: object, position: int) -> Sending:
    """Prepare a document; one that is none gets its result at once.

    Args:
        document: a :class:`DocumentInput` or a mapping with the same keys.
        position: among those that were given.
    """
    values = {name: getattr(document, name) for name in FIELDS} if isinstance(document, DocumentInput) else document
    identifier = ""
    try:
        if not isinstance(values, Mapping):
            raise InvalidInputError(f"A document is a mapping or a DocumentInput, not {type(document).__name__}.")
        given = cast("Mapping[str, object]", values)
        identifier = checked_id(given.get("id"))
        line = encode(given) + b"\n"
    except InvalidInputError as error:
        return Sending(
            position=position, id=identifier, line=b"", result=_refused(position, identifier, error), final=True
        )
    return Sending(position=position, id=identifier, line=line)


def settle(sent: list[Sending], reply: Reply, *, collection: str) -> None:
    """Give each document of a request the result that the reply holds for it.

    Args:
        sent: the documents, in the order of the request's lines.
        reply: the answer, which may have broken off.
        collection: its name.

    Raises:
        ServiceUnavailableError: a whole answer leaves documents out, or speaks of others.
    """
    for answer in _answers(reply.body):
        number = answer.get("line")
        if not isinstance(number, int):
            continue  # the summary
        if not 1 <= number <= len(sent) or answer.get("id", sent[number - 1].id) != sent[number - 1].id:
            raise ServiceUnavailableError("The service answered about documents that were not sent.")
        one = sent[number - 1]
        one.result = _result(one, answer, collection=collection)
        one.final = answer.get("code") not in BUSY
    unanswered = sum(one.result is None for one in sent)
    if unanswered and reply.broken is None:
        raise ServiceUnavailableError(f"The service did not say what became of {unanswered} of {len(sent)} documents.")


def _answers(body: bytes) -> Iterator[dict[str, Any]]:
    for line in body.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue  # where the answer broke off
        if isinstance(value, dict):
            yield cast("dict[str, Any]", value)


def _result(one: Sending, answer: Mapping[str, Any], *, collection: str) -> BatchResult:
    detail = answer.get("error")
    if detail is not None:
        code = int(answer.get("code", 0))
        return _refused(one.position, one.id, problem_of(detail, code, collection=collection))
    return BatchResult(
        position=one.position,
        id=one.id,
        status=answer.get("status"),
        accepted=answer.get("code") == 202,
        warnings=tuple(answer.get("warnings", ())),
    )


def _refused(position: int, identifier: str, error: KnowledgeError) -> BatchResult:
    return BatchResult(position=position, id=identifier, error=error)
