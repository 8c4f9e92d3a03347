"""A collection as the store keeps it, and what its state means (specification §5)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from knowledge_worker.domain.language import SIMPLE

NO_MODEL: Final = "none"
"""What stands in place of a model's name for a collection that is searched by words only."""


class CollectionKind(StrEnum):
    """Where a collection's documents come from."""

    DECLARED = "declared"
    MANAGED = "managed"


class CollectionStatus(StrEnum):
    """Whether a collection can be searched, and how truly."""

    PENDING = "pending"
    READY = "ready"
    STALE = "stale"
    ORPHANED = "orphaned"


class GenerationState(StrEnum):
    """What a generation is for."""

    BUILDING = "building"
    SERVING = "serving"


class ChunkStorage(StrEnum):
    """Which table holds the chunks of a generation."""

    SHARED = "shared"
    OWN = "own"


class Generation(BaseModel):
    """All chunks of one model and one chunker version.

    Attributes:
        id: unique over all collections; later generations have larger ids.
        number: 1, 2, … within the collection; never used again.
        slot: 0 or 1, which of a document's two marks says whether it is settled in this generation.
        dimensions: of every vector; None until the first answer of the model.
        language: that its words are taken in; empty for a generation without words, from before there were any.
        storage: the table of its chunks when this was read; it follows their number.
    """

    model_config = ConfigDict(frozen=True)

    id: int
    number: int
    slot: int
    model: str
    dimensions: int | None
    chunker: str
    language: str = SIMPLE
    state: GenerationState
    storage: ChunkStorage = ChunkStorage.SHARED


class DocumentCounts(BaseModel):
    """Documents of a collection by status."""

    model_config = ConfigDict(frozen=True)

    pending: int = 0
    ready: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        return self.pending + self.ready + self.failed


class Collection(BaseModel):
    """A collection's row with its generations and counts: one honest state.

    Attributes:
        key: surrogate key; a deleted and re-created name is another one.
        language: that words are taken in, one of :data:`~knowledge_worker.domain.language.LANGUAGES`.
        declaration: fingerprint of the declaration that passes run under; None for a managed collection.
        error: why the newest pass failed; readable until one succeeds.
        failures: failed passes in a row.
        retry_at: when the next attempt may be made.
        failed_at: when the first of these failures was: since when it fails.
        broken: a configuration error ended it; nothing is tried until it is declared anew.
        incomplete: reasons of the newest pass that could not read everything.
        notice: what waits for a person, such as held-back deletions.
        synced_at: end of the last successful pass.
        requested: sync requests ever made; ``done`` of them are answered.
        running: the worker that holds the collection now.
        outdated: of a managed collection that is served by another model than the default one; ``sync`` mends it.
    """

    model_config = ConfigDict(frozen=True)

    key: int
    name: str
    kind: CollectionKind
    title: str | None
    description: str | None
    stored_status: CollectionStatus
    trusted: bool
    model: str
    language: str = SIMPLE
    declaration: str | None
    resync_ms: int | None
    error: str | None
    failures: int
    retry_at: datetime | None
    failed_at: datetime | None
    broken: bool
    incomplete: tuple[str, ...] = ()
    notice: str | None
    synced_at: datetime | None
    requested: int
    done: int
    running: str | None
    updated_at: datetime
    serving: Generation | None
    building: Generation | None
    documents: DocumentCounts = Field(default_factory=DocumentCounts)
    chunks: int = 0
    outdated: bool = False

    @property
    def status(self) -> CollectionStatus:
        """``pending`` until something is served, ``stale`` while another generation is written or asked for."""
        if self.stored_status is CollectionStatus.ORPHANED:
            return CollectionStatus.ORPHANED
        if self.serving is None:
            return CollectionStatus.PENDING
        return CollectionStatus.STALE if self.building is not None or self.outdated else CollectionStatus.READY
