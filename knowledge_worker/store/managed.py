"""What a store promises for managed collections: filled by callers, on any replica, while the service runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from knowledge_worker.domain.document import CheckedDocument, Document, DocumentPage, DocumentStatus, PutResult

Precondition: TypeAlias = Callable[[Document | None], None]
"""Looks at the stored document (without content; None when there is none) and raises to refuse the write."""


class ManagedStore(Protocol):
    """Managed collections and their documents; every call is one transaction or a few small ones."""

    def create(self, name: str, *, title: str | None, description: str | None, model: str, language: str) -> None:
        """Store an empty managed collection and ask for its first pass.

        Raises:
            CollectionExistsError: a stored collection, orphaned ones included, has this name.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete a managed or orphaned collection with everything in it; work in flight for it writes nothing more.

        Raises:
            CollectionNotFoundError: no such collection.
            CollectionDeclaredError: code declares it.
        """
        ...

    def check_managed(self, name: str) -> None:
        """Whether documents can be put into a collection.

        Raises:
            CollectionNotFoundError: no such collection.
            CollectionNotManagedError: its documents come from sources.
        """
        ...

    def put(
        self, name: str, documents: Sequence[CheckedDocument], *, precondition: Precondition | None = None
    ) -> list[PutResult]:
        """Store documents; what has new content, title or source, or had failed, waits to be embedded.

        Args:
            documents: no id twice.
            precondition: asked about each, under its row's lock.

        Returns:
            What became of each, in the same order.

        Raises:
            CollectionNotFoundError, CollectionNotManagedError: as :meth:`check_managed`.
        """
        ...

    def delete_document(self, name: str, document_id: str, *, precondition: Precondition | None = None) -> None:
        """Delete a document with its passages; work in flight for it writes nothing more.

        Raises:
            CollectionNotFoundError, CollectionNotManagedError: as :meth:`check_managed`.
            DocumentNotFoundError: no such document, and the precondition did not refuse.
        """
        ...

    def find_document(self, name: str, document_id: str) -> Document:
        """One document with its content, of any kind of collection.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: no such document.
        """
        ...

    def list_documents(self, name: str, *, status: DocumentStatus | None, limit: int, offset: int) -> DocumentPage:
        """A page of documents by id, without content, of any kind of collection.

        Args:
            status: None lists all.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        ...
