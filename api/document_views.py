"""The JSON we answer with about documents; what all views share is in :mod:`~.views`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field

from knowledge_worker.domain.document import Document, DocumentPage, DocumentStatus, PutResult
from knowledge_worker.domain.limits import LIST_DEFAULT

from . import examples
from .examples import shown
from .views import ErrorDetailView, Maybe, Time, View


class DocumentView(View):
    """A document."""

    model_config = ConfigDict(
        json_schema_extra=shown({**examples.DOCUMENT_LISTED, "content": "Install the package, then run it."})
    )

    id: str
    title: Maybe[str] = None
    source: Maybe[str] = None
    metadata: Maybe[dict[str, Any]] = None
    status: DocumentStatus = Field(
        description="`pending`: the newest content waits to be embedded, and what was embedded before is found."
    )
    error: Maybe[str] = Field(default=None, description="Why it could not be embedded.")
    warnings: Maybe[list[str]] = Field(default=None, description="What was changed to make it storable.")
    hash: str = Field(description="SHA-256 of the content in UTF-8, hexadecimal.")
    content: Maybe[str] = Field(default=None, description="Not in lists.")
    updated_at: Time


class PageView(View):
    """Which part of a list this is."""

    total: int = Field(description="Documents that match the filter, on all pages.")
    limit: int
    offset: int


class DocumentListView(View):
    """Some documents by id, without content."""

    model_config = ConfigDict(
        json_schema_extra=shown(
            {"data": [examples.DOCUMENT_LISTED], "meta": {"total": 1, "limit": LIST_DEFAULT, "offset": 0}}
        )
    )

    data: list[DocumentView]
    meta: PageView


class PutView(View):
    """What became of a document that was put."""

    model_config = ConfigDict(json_schema_extra=shown({"status": "pending"}))

    status: DocumentStatus
    warnings: Maybe[list[str]] = Field(default=None, description="What was changed to make it storable.")


class BulkResultView(View):
    """What became of one line of a bulk write."""

    model_config = ConfigDict(json_schema_extra=shown({"line": 1, "id": "setup.md", "code": 202, "status": "pending"}))

    line: int = Field(description="Of the request's body, from 1; blank lines count.")
    id: Maybe[str] = Field(default=None, description="The document's id, where the line has a valid one.")
    code: int = Field(description="The status that a PUT of this document would have had: 200, 202, 400, 404, …")
    status: Maybe[DocumentStatus] = Field(default=None, description="Of the document, where it was taken.")
    warnings: Maybe[list[str]] = Field(default=None, description="What was changed to make it storable.")
    error: Maybe[ErrorDetailView] = None


class BulkSummaryView(View):
    """The last line of a bulk write's answer."""

    model_config = ConfigDict(json_schema_extra=shown({"documents": 3, "accepted": 1, "unchanged": 1, "failed": 1}))

    documents: int = Field(description="Lines that were not blank.")
    accepted: int = Field(description="Documents that wait to be embedded because of this request (202).")
    unchanged: int = Field(description="Documents for which nothing has to be embedded (200).")
    failed: int = Field(description="Lines that were refused.")


class HookView(View):
    """A webhook that was accepted."""

    model_config = ConfigDict(json_schema_extra=shown({"collections": ["handbook"]}))

    collections: list[str] = Field(description="For each of these a sync was asked for.")


BulkLine = Mapping[Literal["line", "id", "code", "status", "warnings", "error"], Any]


def document_view(document: Document) -> DocumentView:
    """A document as REST shows it."""
    return DocumentView(
        id=document.id,
        title=document.title,
        source=document.source,
        metadata=document.metadata or None,
        status=document.status,
        error=document.error,
        warnings=list(document.warnings) or None,
        hash=document.hash,
        content=document.content,
        updated_at=document.updated_at,
    )


def document_list_view(page: DocumentPage) -> DocumentListView:
    """A page of documents as REST shows it."""
    return DocumentListView(
        data=[document_view(document) for document in page.documents],
        meta=PageView(total=page.total, limit=page.limit, offset=page.offset),
    )


def put_view(result: PutResult) -> PutView:
    """What became of a put, as REST shows it."""
    return PutView(status=result.status, warnings=list(result.warnings) or None)
