"""Managed collections: created, filled and deleted by callers while workers are at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import RowMapping

from knowledge_worker.domain.document import (
    CheckedDocument,
    Document,
    DocumentPage,
    DocumentStatus,
    PutResult,
    document_version,
)
from knowledge_worker.errors import (
    CollectionDeclaredError,
    CollectionExistsError,
    CollectionNotFoundError,
    CollectionNotManagedError,
    DocumentNotFoundError,
)
from knowledge_worker.store.managed import ManagedStore, Precondition
from knowledge_worker.store.postgres.database import NOW, Database, DeadlockError, Transaction
from knowledge_worker.store.postgres.incoming import (
    Incoming,
    insert_documents,
    relabel_documents,
    replace_documents,
)
from knowledge_worker.store.postgres.leases import lock_collection, share_collection
from knowledge_worker.store.postgres.own_tables import drop_unused_tables
from knowledge_worker.store.postgres.placement import forget_deleted, places_of

_SHOWN: Final = """
    d.id as key, d.document_id as id, d.title, d.source, d.metadata, d.status, d.error, d.warnings, d.hash,
    d.details_hash, d.metadata_hash, d.updated_at
"""

_DELETE_TRIES: Final = 3
"""Claims are renewed without the collection's lock, in another order than a deletion meets their rows."""


class PostgresManaged(ManagedStore):
    """Every write holds the collection's advisory lock, shared; a deletion of the collection has it alone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, *, title: str | None, description: str | None, model: str, language: str) -> None:
        with self._database.transaction() as tx:
            created = tx.value(
                f"""
                insert into collections
                  (name, kind, title, description, model, language, sync_requested, created_at, updated_at)
                values (:name, 'managed', :title, :description, :model, :language, 1, {NOW}, {NOW})
                on conflict (name) do nothing returning id
                """,
                name=name,
                title=title,
                description=description,
                model=model,
                language=language,
            )
        if created is None:
            raise CollectionExistsError(f'There is a knowledge collection "{name}" already.')

    def delete(self, name: str) -> None:
        for tries_left in reversed(range(_DELETE_TRIES)):
            try:
                self._delete(name)
            except DeadlockError:
                if tries_left:
                    continue
                raise
            return

    def _delete(self, name: str) -> None:
        with self._database.transaction() as tx:
            key = _key(tx, name)
            lock_collection(tx, key)
            row = tx.row("select kind, orphaned from collections where id = :key", key=key)
            if row is None:
                raise CollectionNotFoundError(name)
            if row["kind"] == "declared" and not row["orphaned"]:
                raise CollectionDeclaredError(
                    f'Knowledge collection "{name}" is declared in code: remove it there, then it can be deleted.'
                )
            tx.run(
                "delete from chunks where generation_id in (select id from generations where collection_id = :key)",
                key=key,
            )
            tx.run("delete from collections where id = :key", key=key)
        drop_unused_tables(self._database, key)

    def check_managed(self, name: str) -> None:
        with self._database.transaction() as tx:
            _share_managed(tx, name)

    def put(
        self, name: str, documents: Sequence[CheckedDocument], *, precondition: Precondition | None = None
    ) -> list[PutResult]:
        results: dict[str, PutResult] = {}
        # In the order of their ids, so that two writers of the same documents never wait for each other.
        left = sorted(documents, key=lambda document: document.id)
        while left:
            with self._database.transaction() as tx:
                key = _share_managed(tx, name)
                results |= _put(tx, key, name, left, precondition)
            # Someone else has stored these a moment ago: now they are there to be compared.
            left = [document for document in left if document.id not in results]
        return [results[document.id] for document in documents]

    def delete_document(self, name: str, document_id: str, *, precondition: Precondition | None = None) -> None:
        with self._database.transaction() as tx:
            key = _share_managed(tx, name)
            stored = _locked(tx, key, [document_id]).get(document_id)
            if precondition is not None:
                precondition(None if stored is None else _document(stored, name))
            if stored is None:
                raise DocumentNotFoundError(name, document_id)
            tx.value(
                f"""
                with gone as (
                  delete from documents where collection_id = :key and document_id = :id returning id
                ) {forget_deleted(places_of(tx, key), "gone")}
                select count(*) from gone
                """,
                key=key,
                id=document_id,
            )

    def find_document(self, name: str, document_id: str) -> Document:
        with self._database.transaction() as tx:
            row = tx.row(
                f"""
                select {_SHOWN}, d.content from documents d join collections c on c.id = d.collection_id
                where c.name = :name and d.document_id = :id
                """,
                name=name,
                id=document_id,
            )
            if row is None:
                _key(tx, name)
                raise DocumentNotFoundError(name, document_id)
        return _document(row, name, content=row["content"])

    def list_documents(self, name: str, *, status: DocumentStatus | None, limit: int, offset: int) -> DocumentPage:
        only = "" if status is None else "and status = :status"
        with self._database.transaction() as tx:
            key = _key(tx, name)
            total: int = tx.value(
                f"select count(*) from documents where collection_id = :key {only}", key=key, status=status
            )
            # The pages in front are passed over in the index alone; only this page's rows are looked at.
            rows = tx.rows(
                f"""
                with page as materialized (
                  select document_id from documents where collection_id = :key {only}
                  order by document_id limit :limit offset :offset
                )
                select {_SHOWN} from page
                join documents d on d.collection_id = :key and d.document_id = page.document_id
                order by d.document_id
                """,
                key=key,
                status=status,
                limit=limit,
                offset=offset,
            )
        return DocumentPage(
            documents=tuple(_document(row, name) for row in rows), total=total, limit=limit, offset=offset
        )


def _key(tx: Transaction, name: str) -> int:
    key = tx.value("select id from collections where name = :name", name=name)
    if key is None:
        raise CollectionNotFoundError(name)
    return key


def _share_managed(tx: Transaction, name: str) -> int:
    """Hold off a deletion of the collection until commit."""
    while True:
        key = _key(tx, name)
        share_collection(tx, key)
        kind = tx.value("select kind from collections where id = :key", key=key)
        if kind == "managed":
            return key
        if kind is not None:
            raise CollectionNotManagedError(
                f'The documents of "{name}" come from its sources; only managed collections take documents one by one.'
            )
        # Deleted while we waited; perhaps there is another one of this name by now.


def _put(
    tx: Transaction, key: int, name: str, documents: Sequence[CheckedDocument], precondition: Precondition | None
) -> dict[str, PutResult]:
    """Store what can be stored now; a document that another writer has just inserted is left out."""
    stored = _locked(tx, key, [document.id for document in documents])
    new: list[Incoming] = []
    replaced: list[Incoming] = []
    relabelled: list[Incoming] = []
    for document in documents:
        row = stored.get(document.id)
        if precondition is not None:
            precondition(None if row is None else _document(row, name))
        if row is None:
            new.append((None, document))
        elif row["status"] == DocumentStatus.FAILED or (
            (row["hash"], row["details_hash"]) != (document.hash, document.details_hash)
        ):
            replaced.append((None, document))
        elif row["metadata_hash"] != document.metadata_hash:
            relabelled.append((None, document))
    created = insert_documents(tx, key, new).keys()
    replace_documents(tx, key, replaced)
    relabel_documents(tx, key, relabelled)
    waiting = {document.id for _, document in replaced} | created
    return {
        row["id"]: PutResult(
            id=row["id"],
            status=DocumentStatus(row["status"]),
            accepted=row["id"] in waiting,
            created=row["id"] in created,
            version=_version(row),
            warnings=tuple(row["warnings"]),
            updated_at=row["updated_at"],
        )
        for row in _locked(tx, key, [*stored, *created]).values()
    }


def _locked(tx: Transaction, key: int, ids: Sequence[str]) -> dict[str, RowMapping]:
    """Rows by id, locked until commit in the order that all writers of several documents keep."""
    rows = tx.rows(
        f"""
        select {_SHOWN} from documents d where d.collection_id = :key and d.document_id = any(:ids)
        order by d.id for update
        """,
        key=key,
        ids=list(ids),
    )
    return {row["id"]: row for row in rows}


def _document(row: RowMapping, name: str, *, content: str | None = None) -> Document:
    return Document(
        collection=name,
        id=row["id"],
        title=row["title"],
        source=row["source"],
        metadata=row["metadata"],
        status=DocumentStatus(row["status"]),
        error=row["error"],
        warnings=tuple(row["warnings"]),
        hash=row["hash"],
        content=content,
        version=_version(row),
        updated_at=row["updated_at"],
    )


def _version(row: RowMapping) -> str:
    return document_version(row["hash"], row["details_hash"], row["metadata_hash"])
