"""What the service answers, as frozen models; a field that a newer service adds is ignored."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from knowledge_worker.domain.collection import CollectionKind, CollectionStatus
from knowledge_worker.domain.document import DocumentStatus
from knowledge_worker.domain.language import SIMPLE
from knowledge_worker.domain.passes import PassOutcome, PassTrigger
from knowledge_worker.errors import KnowledgeError

Word = TypeVar("Word")

Known: TypeAlias = Annotated[Word | str, Field(union_mode="left_to_right")]
"""One of the words that this version knows, or the text that a newer service says instead."""

Time: TypeAlias = AwareDatetime


class Answer(BaseModel):
    """What all answers share."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class DocumentCounts(Answer):
    """Documents of a collection by status."""

    total: int
    pending: int
    ready: int
    failed: int


class Collection(Answer):
    """A collection.

    Attributes:
        model: that made the vectors being searched.
        language: that the words are taken in.
        generation: the number of the generation being searched; None before the first.
        error: why the newest pass failed.
        failures: failed passes in a row.
        failing_since: when the first of those failures was.
        retry_at: nothing is tried before it.
        synced_at: end of the last successful pass.
        incomplete: what the newest pass could not read.
        notice: what waits for a person, such as held-back deletions.
        running: whether a worker is at it now.
        passages: stored chunks.
    """

    name: str
    kind: Known[CollectionKind]
    title: str | None = None
    description: str | None = None
    trusted: bool
    status: Known[CollectionStatus]
    model: str
    language: str = SIMPLE
    generation: int | None = None
    error: str | None = None
    failures: int = 0
    failing_since: Time | None = None
    retry_at: Time | None = None
    synced_at: Time | None = None
    updated_at: Time
    incomplete: tuple[str, ...] = ()
    notice: str | None = None
    running: bool = False
    documents: DocumentCounts
    passages: int = 0


class PassCounts(Answer):
    """What a pass did; ``embedded`` and ``reused`` count passages, ``calls`` requests to the provider."""

    read: int
    added: int
    changed: int
    unchanged: int
    deleted: int
    skipped: int
    failed: int
    embedded: int
    reused: int
    calls: int
    tokens: int


class Pass(Answer):
    """A pass, running or ended.

    Attributes:
        reasons: why the read was incomplete.
        reports: items that were left out, by id.
    """

    id: int
    trigger: Known[PassTrigger]
    outcome: Known[PassOutcome]
    started_at: Time
    ended_at: Time | None = None
    worker: str
    counts: PassCounts
    error: str | None = None
    reasons: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()


class Plan(Answer):
    """What a pass would do now.

    Attributes:
        reembeds: every document would be embedded again.
        deletes_held_back: the declaration's limit would keep them until someone confirms.
        documents: that would be embedded, wholly or in part.
        passages: that would be sent to the model.
        tokens: of these passages, estimated on the high side.
        price: of these tokens, where the provider's price is set.
        reasons: why the read was incomplete.
        reports: what was left out, the first ones.
    """

    collection: str
    model: str
    reembeds: bool
    read: int
    added: int
    changed: int
    unchanged: int
    deleted: int
    skipped: int
    deletes_held_back: bool
    documents: int
    passages: int
    tokens: int
    price: float | None = None
    reasons: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()


class Document(Answer):
    """A document.

    Attributes:
        status: ``pending`` while the newest content waits to be embedded; the previous one is found until then.
        error: why it could not be embedded.
        warnings: what was changed to make it storable.
        hash: SHA-256 of the content in UTF-8, hexadecimal.
        content: None in lists.
        etag: for ``if_match``; None in lists.
    """

    id: str
    title: str | None = None
    source: str | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    status: Known[DocumentStatus]
    error: str | None = None
    warnings: tuple[str, ...] = ()
    hash: str
    content: str | None = None
    updated_at: Time
    etag: str | None = None


class DocumentPage(Answer):
    """Some documents of a collection, by id and without content.

    Attributes:
        total: documents that match the filter, on all pages.
    """

    documents: tuple[Document, ...]
    total: int
    limit: int
    offset: int


class PutResult(Answer):
    """What became of a document that was put.

    Attributes:
        status: after the put.
        accepted: it waits to be embedded because of this put; False when nothing has to be embedded for it.
        etag: of what is stored now, for ``if_match``.
        warnings: what was changed to make it storable.
    """

    id: str
    status: Known[DocumentStatus]
    accepted: bool
    etag: str | None = None
    warnings: tuple[str, ...] = ()


class BatchResult(Answer):
    """What became of one document of many.

    Attributes:
        position: of the document among those that were given, from 0.
        id: of the document; empty where it has none that could be sent.
        status: after the put; None when it was refused.
        accepted: as in :class:`PutResult`.
        warnings: what was changed to make it storable.
        error: why it was refused; None when it was stored.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    position: int
    id: str
    status: Known[DocumentStatus] | None = None
    accepted: bool = False
    warnings: tuple[str, ...] = ()
    error: KnowledgeError | None = None


class Readiness(Answer):
    """Whether the service has everything it needs.

    Attributes:
        missing: what it lacks, one line each.
        warnings: what a person should look at although work goes on.
    """

    ready: bool
    missing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
