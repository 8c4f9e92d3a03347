"""Documents on their way in, from a source or from a caller: the three ways a row of ``documents`` is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg.types.array import ListBinaryDumper

from knowledge_worker.domain.document import CheckedDocument
from knowledge_worker.store.postgres.database import NOW, Transaction


class _Texts(list[object]):
    """Texts, none of them missing, which travel as they are; in another list each would be escaped and parsed."""


psycopg.adapters.register_dumper(_Texts, ListBinaryDumper)

_FIELDS: Final = (
    "document_id",
    "title",
    "source",
    "metadata",
    "content",
    "chars",
    "hash",
    "details_hash",
    "metadata_hash",
    "owner",
    "warnings",
)

_TEXTS: Final = ("document_id", "content", "hash", "details_hash", "metadata_hash")

_INCOMING: Final = """
    unnest(cast(:document_id as text[]), cast(:title as text[]), cast(:source as text[]), cast(:metadata as jsonb[]),
      cast(:content as text[]), cast(:chars as int[]), cast(:hash as text[]), cast(:details_hash as text[]),
      cast(:metadata_hash as text[]), cast(:owner as text[]), cast(:warnings as jsonb[]))
    as n (document_id, title, source, metadata, content, chars, hash, details_hash, metadata_hash, owner, warnings)
"""
_WARNINGS: Final = "array(select jsonb_array_elements_text(n.warnings))"

_HELD: Final = """
    with held as materialized (
      select id from documents where collection_id = :key and document_id = any(cast(:document_id as text[]))
      order by id for update
    )
"""
"""Whoever writes several documents locks them in the order of their keys, or two writers could wait for each other."""

Incoming = tuple[str | None, CheckedDocument]
"""A document and the source that owns it, None for one that a caller put."""


def insert_documents(tx: Transaction, key: int, documents: Sequence[Incoming]) -> dict[str, int]:
    """Store new documents as pending, in the order given, which is the order they are embedded in.

    Returns:
        Id → surrogate key of those that were not there; the others are left as they are.
    """
    if not documents:
        return {}
    rows = tx.rows(
        f"""
        insert into documents (collection_id, {", ".join(_FIELDS)}, created_at, updated_at)
        select :key, {", ".join(f"n.{name}" for name in _FIELDS[:-1])}, {_WARNINGS}, {NOW}, {NOW}
        from {_INCOMING}
        on conflict (collection_id, document_id) do nothing returning document_id, id
        """,
        key=key,
        **_columns(documents),
    )
    return {row["document_id"]: row["id"] for row in rows}


def replace_documents(tx: Transaction, key: int, documents: Sequence[Incoming]) -> None:
    """Give stored documents new content, title or source: pending again, and nobody's claim holds any more."""
    if not documents:
        return
    tx.run(
        f"""
        {_HELD}
        update documents d set title = n.title, source = n.source, metadata = n.metadata, content = n.content,
          chars = n.chars, hash = n.hash, details_hash = n.details_hash, metadata_hash = n.metadata_hash,
          owner = n.owner, warnings = {_WARNINGS}, version = d.version + 1, settled_0 = 0, settled_1 = 0,
          status = 'pending', error = null, claim_token = null, claim_until = null, deaths = 0,
          updated_at = {NOW}
        from held, {_INCOMING} where d.id = held.id and d.document_id = n.document_id
        """,
        key=key,
        **_columns(documents),
    )


def relabel_documents(tx: Transaction, key: int, documents: Sequence[Incoming]) -> None:
    """Give stored documents new metadata or another owner; nothing is embedded for it."""
    if not documents:
        return
    tx.run(
        f"""
        {_HELD}
        update documents d set metadata = n.metadata, metadata_hash = n.metadata_hash, owner = n.owner,
          warnings = {_WARNINGS}, updated_at = {NOW}
        from held, {_INCOMING} where d.id = held.id and d.document_id = n.document_id
        """,
        key=key,
        **_columns(documents),
    )


def _columns(documents: Sequence[Incoming]) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {name: [] for name in _FIELDS}
    for owner, document in documents:
        columns["document_id"].append(document.id)
        columns["title"].append(document.title)
        columns["source"].append(document.source)
        columns["metadata"].append(json.dumps(document.metadata))
        columns["content"].append(document.content)
        columns["chars"].append(len(document.content))
        columns["hash"].append(document.hash)
        columns["details_hash"].append(document.details_hash)
        columns["metadata_hash"].append(document.metadata_hash)
        columns["owner"].append(owner)
        columns["warnings"].append(json.dumps(document.warnings))
    return columns | {name: _Texts(columns[name]) for name in _TEXTS}
