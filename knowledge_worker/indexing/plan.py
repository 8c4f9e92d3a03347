"""Find out what a pass would do: it reads the sources and the store and writes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from knowledge_worker.chunking import chunk_text
from knowledge_worker.domain.collection import NO_MODEL, Collection, CollectionKind, Generation
from knowledge_worker.domain.document import CheckedDocument, is_blank
from knowledge_worker.domain.plan import Plan
from knowledge_worker.embedding.tokens import estimated_tokens
from knowledge_worker.errors import PassCancelledError, SourceError
from knowledge_worker.indexing.embed import text_hash
from knowledge_worker.indexing.generations import matches
from knowledge_worker.indexing.read import batches, source_owners
from knowledge_worker.ports import EmbeddingModel, KnowledgeSource
from knowledge_worker.sources.ahead import read_ahead
from knowledge_worker.sources.reading import SourcesRead, read_sources
from knowledge_worker.store.protocol import Store, StoredDocument

PAGE = 200


@dataclass(slots=True)
class _Tally:
    sends: bool
    """Whether passages go to a model."""
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    documents: int = 0
    passages: int = 0
    tokens: int = 0
    counted: set[bytes] = field(default_factory=set[bytes])
    """Passages that stand in several documents are sent once."""


def plan_step(
    *,
    store: Store,
    name: str,
    collection: Collection | None,
    model: EmbeddingModel,
    sources: Sequence[KnowledgeSource],
    max_delete_ratio: float | None,
    price_per_million_tokens: float | None,
    batch_size: int,
    idle_max_s: float,
) -> Plan:
    """Compare one read of the sources with the store.

    Args:
        collection: as stored; None when no worker has taken it up yet.
        price_per_million_tokens: None when nobody set it.
        idle_max_s: a source that yields nothing for so long is given up.

    Raises:
        SourceError: a source raised, or hangs.
        ConfigurationError: a source can never work as it is declared.
    """
    generation = _target(collection, model)
    reused = generation or _served_by(collection, model)
    tally = _Tally(sends=model.id != NO_MODEL)
    stop = threading.Event()
    read = read_sources(sources, collection=name, cancelled=stop.is_set)
    deleted = before = 0
    if sources:
        seen_at = time.monotonic()

        def progress() -> None:
            nonlocal seen_at
            seen_at = time.monotonic()

        ahead = read_ahead(
            batches(read, batch_size, progress),
            name=name,
            stop=stop,
            cancelled=lambda: time.monotonic() - seen_at > idle_max_s,
        )
        try:
            seen = _read(store, collection, generation, reused, read, ahead, source_owners(sources), tally)
        except PassCancelledError:
            raise SourceError(f"Nothing came for {idle_max_s:g} s: a source hangs.") from None
        before = store.documents.count(collection.key) if collection is not None else 0
        deleted = 0 if read.reasons else before - seen
    elif collection is not None:
        _stored(store, collection, generation, reused, tally)
    return Plan(
        collection=name,
        model=model.id,
        reembeds=collection is not None and collection.serving is not None and collection.serving != generation,
        read=read.read,
        added=tally.added,
        changed=tally.changed,
        unchanged=tally.unchanged,
        deleted=deleted,
        skipped=read.skipped,
        deletes_held_back=max_delete_ratio is not None and deleted > max_delete_ratio * before,
        documents=tally.documents,
        passages=tally.passages,
        tokens=tally.tokens,
        price=None if price_per_million_tokens is None else tally.tokens * price_per_million_tokens / 1_000_000,
        reasons=read.reasons,
        reports=read.reports,
    )


def _target(collection: Collection | None, model: EmbeddingModel) -> Generation | None:
    """The generation a pass would write to; None for one that is yet to begin."""
    if collection is None:
        return None
    for generation in (collection.serving, collection.building):
        if generation is not None and matches(generation, collection, model):
            return generation
    return None


def _served_by(collection: Collection | None, model: EmbeddingModel) -> Generation | None:
    """The served generation when this model made it: its vectors are taken over, though words or cuts differ."""
    serving = collection.serving if collection is not None else None
    return serving if serving is not None and serving.model == model.id else None


def _read(
    store: Store,
    collection: Collection | None,
    generation: Generation | None,
    reused: Generation | None,
    read: SourcesRead,
    ahead: Generator[tuple[int, list[CheckedDocument]]],
    owners: Sequence[str],
    tally: _Tally,
) -> int:
    # The source that yielded a document last, by its key or, of a new one, by its id.
    seen: dict[int, int] = {}
    new: dict[str, int] = {}
    with closing(ahead) as groups:
        for index, batch in groups:
            kept = {owner for owner, one in zip(owners, read.results[:index], strict=False) if one.incomplete}
            stored = (
                store.documents.stored(collection.key, generation, [document.id for document in batch])
                if collection is not None
                else {}
            )
            waiting: list[tuple[int | None, CheckedDocument]] = []
            for document in batch:
                row = stored.get(document.id)
                seen_by = new.get(document.id) if row is None else seen.get(row.key)
                if row is None:
                    new[document.id] = index
                else:
                    seen[row.key] = index
                if seen_by == index:
                    read.report_repeated(index, document.id)
                elif seen_by is not None or (row is not None and row.owner != owners[index] and row.owner in kept):
                    continue
                elif row is None:
                    tally.added += 1
                    waiting.append((None, document))
                elif _compare(row, document, owners[index], tally):
                    waiting.append((row.key, document))
            _count(store, reused, [(key, document.content) for key, document in waiting], tally)
    read.finish()
    return len(seen)


def _compare(row: StoredDocument, document: CheckedDocument, owner: str, tally: _Tally) -> bool:
    """Whether the document would be embedded."""
    if (row.hash, row.details_hash) != (document.hash, document.details_hash):
        tally.changed += 1
        return True
    if (row.metadata_hash, row.owner) != (document.metadata_hash, owner):
        tally.changed += 1
    else:
        tally.unchanged += 1
    return not row.settled


def _stored(
    store: Store, collection: Collection, generation: Generation | None, reused: Generation | None, tally: _Tally
) -> None:
    """Documents of a managed collection that wait; their sources are the rows themselves."""
    assert collection.kind is CollectionKind.MANAGED
    after = 0
    while rows := store.documents.waiting(collection.key, generation, after=after, limit=PAGE):
        _count(store, reused, [(row.id, row.content) for row in rows], tally)
        after = rows[-1].id
    tally.unchanged = store.documents.count(collection.key) - tally.documents


def _count(store: Store, reused: Generation | None, documents: Sequence[tuple[int | None, str]], tally: _Tally) -> None:
    keys = [key for key, _ in documents if key is not None]
    kept = store.generations.kept_hashes(reused, keys) if reused is not None and keys else {}
    for key, content in documents:
        tally.documents += 1
        if not tally.sends:
            continue
        known = kept.get(key, frozenset()) if key is not None else frozenset[bytes]()
        for chunk in chunk_text(content):
            digest = text_hash(chunk.text)
            if is_blank(chunk.text) or digest in known or digest in tally.counted:
                continue
            tally.counted.add(digest)
            tally.passages += 1
            tally.tokens += estimated_tokens(chunk.text)
