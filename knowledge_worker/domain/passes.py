"""The record of a pass (specification rule 32)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class PassTrigger(StrEnum):
    """What made a pass run."""

    START = "start"
    INTERVAL = "interval"
    REQUEST = "request"
    RETRY = "retry"
    PENDING = "pending"


class PassOutcome(StrEnum):
    """How a pass ended; ``running`` until then."""

    RUNNING = "running"
    OK = "ok"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"


class PassCounts(BaseModel):
    """What a pass did. ``read`` counts items of the sources, ``skipped`` those that were reported and left out."""

    model_config = ConfigDict(validate_assignment=False)

    read: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    deleted: int = 0
    skipped: int = 0
    failed: int = 0
    embedded: int = 0
    reused: int = 0
    calls: int = 0
    tokens: int = 0


class PassRecord(BaseModel):
    """One pass of a collection, running or ended."""

    model_config = ConfigDict(frozen=True)

    id: int
    collection: str
    trigger: PassTrigger
    outcome: PassOutcome
    started_at: datetime
    ended_at: datetime | None
    worker: str
    counts: PassCounts
    error: str | None
    reasons: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
