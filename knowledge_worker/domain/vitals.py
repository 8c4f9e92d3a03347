"""How the whole deployment is doing, as PostgreSQL knows it at one moment."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict


class Pulse(BaseModel):
    """Whether somebody asks what is due, and whether something waits that nobody takes up.

    Attributes:
        tick_age_ms: since the last tick was worked off, by the database's clock; None before the first one.
        ticked_at: when that was.
        stuck_claims: documents whose worker died and that nobody took up again, although nothing holds it up.
        workers: worker processes that were seen within the last ticks.
    """

    model_config = ConfigDict(frozen=True)

    tick_age_ms: int | None
    ticked_at: datetime | None
    stuck_claims: int
    workers: int


class CollectionVitals(BaseModel):
    """What is worth an alarm about a collection, or about all those beyond the number that is told apart.

    Attributes:
        collections: how many these are; 1 unless ``name`` stands for several.
        synced_at: end of the last successful pass, of several the earliest; None when one was never indexed.
        resync_ms: its interval, of several the longest.
        retry_at: when the next attempt may be made, of several the latest.
        failures: failed passes in a row, of several the most.
        failing: collections whose last pass failed.
        broken: collections that a configuration error ended.
        running: collections that a pass runs on.
        requests: syncs that were asked for and are not done.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    collections: int
    synced_at: datetime | None
    resync_ms: int | None
    retry_at: datetime | None
    failures: int
    failing: int
    broken: int
    running: int
    requests: int


class DocumentVitals(BaseModel):
    """The documents of a collection.

    Attributes:
        name: as in :class:`CollectionVitals`.
        pending_since: when the one that waits longest was stored; exact up to 10 000 pending documents of a collection.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    pending: int
    ready: int
    failed: int
    pending_since: datetime | None
