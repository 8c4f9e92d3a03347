"""Rows to nouns, and the SQL fragments that several files share."""

from __future__ import annotations

from typing import Final

from sqlalchemy import RowMapping

from knowledge_worker.domain.collection import (
    ChunkStorage,
    Collection,
    CollectionKind,
    CollectionStatus,
    DocumentCounts,
    Generation,
    GenerationState,
)
from knowledge_worker.domain.passes import PassCounts, PassOutcome, PassRecord, PassTrigger

COLLECTION_LOCK: Final = 7_415
"""First key of the advisory lock on a collection; the second is the collection's key."""

COLLECTIONS: Final = """
    select c.id, c.name, c.kind, c.title, c.description, c.orphaned, c.trusted, c.model, c.language, c.declaration,
           c.resync_ms, c.error, c.failures, c.retry_at, c.failed_at, c.broken, c.incomplete, c.notice, c.synced_at,
           c.sync_requested, c.sync_done, c.holder, c.updated_at,
           s.id s_id, s.number s_number, s.slot s_slot, s.model s_model, s.dimensions s_dimensions,
           s.chunker s_chunker, s.language s_language, s.storage s_storage,
           b.id b_id, b.number b_number, b.slot b_slot, b.model b_model, b.dimensions b_dimensions,
           b.chunker b_chunker, b.language b_language, b.storage b_storage
    from collections c
    left join generations s on s.id = c.serving
    left join generations b on b.id = c.building
"""

COUNTS: Final = """
    select d.collection_id, count(*) filter (where d.status = 'pending') pending,
           count(*) filter (where d.status = 'ready') ready, count(*) filter (where d.status = 'failed') failed
    from documents d where d.collection_id = any(:keys) group by d.collection_id
"""

UNSETTLED: Final = """
    case when c.kind = 'declared' and c.building is not null then
      exists (select from generations b where b.id = c.building and (
        (b.slot = 0 and exists (select from documents d
          where d.collection_id = c.id and d.settled_0 < b.id and coalesce(d.claim_until < {now}, true)))
        or (b.slot = 1 and exists (select from documents d
          where d.collection_id = c.id and d.settled_1 < b.id and coalesce(d.claim_until < {now}, true)))))
    when c.serving is null and c.building is null then
      exists (select from documents d where d.collection_id = c.id)
    else
      exists (select from generations g where g.id in (c.serving, c.building) and (
        (g.slot = 0 and exists (select from documents d
          where d.collection_id = c.id and d.settled_0 < g.id and coalesce(d.claim_until < {now}, true)))
        or (g.slot = 1 and exists (select from documents d
          where d.collection_id = c.id and d.settled_1 < g.id and coalesce(d.claim_until < {now}, true)))))
    end
"""
"""Whether a document of collection ``c`` waits to be embedded and nobody has it."""


def collection_of(row: RowMapping, counts: DocumentCounts | None = None, chunks: int = 0) -> Collection:
    """A row of :data:`COLLECTIONS` as a noun."""
    orphaned: bool = row["orphaned"]
    return Collection(
        key=row["id"],
        name=row["name"],
        kind=CollectionKind(row["kind"]),
        title=row["title"],
        description=row["description"],
        stored_status=CollectionStatus.ORPHANED if orphaned else CollectionStatus.READY,
        trusted=row["trusted"],
        model=row["model"],
        language=row["language"],
        declaration=row["declaration"],
        resync_ms=row["resync_ms"],
        error=row["error"],
        failures=row["failures"],
        retry_at=row["retry_at"],
        failed_at=row["failed_at"],
        broken=row["broken"],
        incomplete=tuple(row["incomplete"]),
        notice=row["notice"],
        synced_at=row["synced_at"],
        requested=row["sync_requested"],
        done=row["sync_done"],
        running=row["holder"],
        updated_at=row["updated_at"],
        serving=generation_of(row, "s_", GenerationState.SERVING),
        building=generation_of(row, "b_", GenerationState.BUILDING),
        documents=counts or DocumentCounts(),
        chunks=chunks,
    )


def generation_of(row: RowMapping, prefix: str, state: GenerationState) -> Generation | None:
    """The columns ``<prefix>id``, ``<prefix>number`` … as a noun; None when there is no generation."""
    if row[f"{prefix}id"] is None:
        return None
    return Generation(
        id=row[f"{prefix}id"],
        number=row[f"{prefix}number"],
        slot=row[f"{prefix}slot"],
        model=row[f"{prefix}model"],
        dimensions=row[f"{prefix}dimensions"],
        chunker=row[f"{prefix}chunker"],
        language=row[f"{prefix}language"],
        state=state,
        storage=ChunkStorage(row[f"{prefix}storage"]),
    )


def pass_of(row: RowMapping) -> PassRecord:
    """A row of ``passes`` with the collection's ``name`` as a noun."""
    return PassRecord(
        id=row["id"],
        collection=row["name"],
        trigger=PassTrigger(row["trigger"]),
        outcome=PassOutcome(row["outcome"]),
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        worker=row["worker"],
        counts=PassCounts(**{name: row[name] for name in PassCounts.model_fields}),
        error=row["error"],
        reasons=tuple(row["reasons"]),
        reports=tuple(row["reports"]),
    )
