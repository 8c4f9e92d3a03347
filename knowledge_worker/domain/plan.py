"""What a pass would do now (``plan``), found out without doing it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Plan(BaseModel):
    """The difference between the sources and the index, and what it would cost to close.

    Attributes:
        reembeds: every document would be embedded again, since the model or the chunker changed.
        read: items of the sources.
        deleted: documents that no source yields any more; 0 when the read is incomplete.
        deletes_held_back: ``max_delete_ratio`` would keep them until someone confirms.
        documents: that would be embedded, wholly or in part.
        passages: that would be sent to the model; those it has embedded before are not.
        tokens: of these passages, estimated on the high side.
        price: of these tokens, where the provider's price is set.
        reasons: why the read was incomplete.
        reports: what the sources or the checks left out, the first ones.
    """

    model_config = ConfigDict(frozen=True)

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
    price: float | None
    reasons: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
