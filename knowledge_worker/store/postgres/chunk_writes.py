"""Chunks on their way into a table: sent by COPY, their words taken by PostgreSQL's own parser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pgvector import HalfVector
from pgvector.psycopg import register_vector

from knowledge_worker.chunking.words import searchable, word_count
from knowledge_worker.store.postgres.database import Transaction
from knowledge_worker.store.postgres.placement import COLUMNS, Part
from knowledge_worker.store.protocol import SettledDocument

_SENT: Final = (*(column for column in COLUMNS if column[0] != "words"), ("searchable", "text"))
_ARRIVING: Final = f"""
    create temporary table if not exists arriving ({", ".join(f"{name} {kind}" for name, kind in _SENT)})
    with (toast_tuple_target = 8160) on commit delete rows
"""
"""Rows up to a page are not compressed on their way."""
_COPY: Final = f"copy arriving ({', '.join(name for name, _ in _SENT)}) from stdin (format binary)"


def write_chunks(tx: Transaction, part: Part, language: str, settled: Sequence[SettledDocument]) -> None:
    """Insert the chunks of documents that have none in ``part``.

    Args:
        language: that the words are taken in, one of :data:`~knowledge_worker.domain.language.LANGUAGES`; empty for
            a generation from before there were words.
    """
    if not any(one.chunks for one in settled):
        return
    tx.run(_ARRIVING)
    _send(tx.driver, settled)
    # The words of a title stand for every passage of its document; text alone was embedded.
    words = "to_tsvector(cast(:language as regconfig), a.searchable)" if language else "null"
    values = ", ".join(words if name == "words" else f"a.{name}" for name, _ in COLUMNS)
    tx.run(f"{part.insert_into} {values} from arriving a", **({"language": language} if language else {}))


def _send(connection: Any, settled: Sequence[SettledDocument]) -> None:
    if connection.adapters.types.get("halfvec") is None:
        register_vector(connection)
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.set_types([kind for _, kind in _SENT])
        for one in settled:
            vectors = [None] * len(one.chunks) if one.vectors is None else one.vectors.astype(">f2")
            document = one.document
            title = f"{document.title}\n" if document.title else ""
            for embedded, vector in zip(one.chunks, vectors, strict=True):
                chunk = embedded.chunk
                words = searchable(title + chunk.text)
                copy.write_row(
                    (
                        document.id,
                        chunk.index,
                        chunk.text,
                        embedded.text_hash,
                        document.title,
                        document.source,
                        list(chunk.section),
                        chunk.line_start,
                        chunk.line_end,
                        chunk.start,
                        chunk.end,
                        None if vector is None else HalfVector(vector),
                        word_count(words),
                        words,
                    )
                )
