"""Documents: list, get, put, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Interval
from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from knowledge_worker.domain.document import DocumentStatus, checked_document, checked_id
from knowledge_worker.domain.limits import CONTENT_MAX_CHARS, LIST_DEFAULT, LIST_MAX, TITLE_MAX_CHARS

from ..body import json_object
from ..conditions import CREATE_ONLY, ETAG, IF_MATCH, IF_NONE_MATCH, Conditions, conditions, entity_tag
from ..document_views import DocumentListView, DocumentView, PutView, document_list_view, document_view, put_view
from ..known import refuse_unknown
from ..openapi import json_body, problems
from ..parameters import COUNT_MAX, DIGITS, Absent, IdInPath, NameInPath, existing_name

if TYPE_CHECKING:
    from knowledge_worker.knowledge import Knowledge


class PutRequest(BaseModel):
    """A document to store.

    It describes the body and names its fields; the rules themselves are those of the Python function, which also takes
    what no pydantic string holds, such as lone surrogates.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"content": "Install the package, then run it.", "title": "Setting up", "metadata": {"v": 2}}]
        },
    )

    content: str = Field(min_length=1, max_length=CONTENT_MAX_CHARS, description="The text, Markdown or plain.")
    title: str | None = Field(default=None, description=f"Cut to {TITLE_MAX_CHARS} characters, with a warning.")
    source: str | None = Field(
        default=None,
        description=f"Where it comes from, such as an address; cut to {TITLE_MAX_CHARS} characters, with a warning.",
    )
    metadata: dict[str, Any] | None = Field(default=None, description="Kept and shown; searches can be filtered by it.")


def documents_router(knowledge: Knowledge) -> APIRouter:
    """The routes below ``/collections/:name/documents``."""
    router = APIRouter(prefix="/collections/{name:segment}/documents", tags=["documents"])

    @router.get("", responses=problems(404))
    def list_documents(
        name: NameInPath,
        limit: Annotated[
            int,
            Interval(ge=1, le=COUNT_MAX),
            DIGITS,
            Query(alias="page[limit]", description=f"Above {LIST_MAX} it is {LIST_MAX}."),
        ] = LIST_DEFAULT,
        offset: Annotated[
            int, Interval(ge=0, le=COUNT_MAX), DIGITS, Query(alias="page[offset]", description="How many to skip.")
        ] = 0,
        status: Annotated[
            DocumentStatus | Absent, Query(alias="filter[status]", description="Only these.", examples=["failed"])
        ] = None,
    ) -> DocumentListView:
        """List documents by id, without their content, of any kind of collection."""
        page = knowledge.list_documents(existing_name(name), status=status, limit=limit, offset=offset)
        return document_list_view(page)

    @router.get(
        "/{id:segment}",
        responses={
            **problems(404),
            200: {"headers": ETAG},
            304: {"description": "The document still has an entity tag that was sent.", "headers": ETAG},
        },
        openapi_extra={"parameters": [IF_NONE_MATCH]},
        response_model=DocumentView,
    )
    def get_document(
        name: NameInPath, document: IdInPath, asked: Annotated[Conditions, Depends(conditions)], response: Response
    ) -> DocumentView | Response:
        """Get one document with its content, of any kind of collection."""
        identifier = checked_id(document)
        found = knowledge.get_document(existing_name(name), identifier)
        tag = entity_tag(found.version, found.updated_at)
        if asked.unchanged(found):
            return Response(status_code=304, headers={"ETag": tag})
        response.headers["ETag"] = tag
        return document_view(found)

    @router.put(
        "/{id:segment}",
        status_code=202,
        responses={
            **problems(404, 409, 412, 413),
            200: {"model": PutView, "description": "Nothing has to be embedded for it.", "headers": ETAG},
            202: {"description": "Stored; it waits to be embedded.", "headers": ETAG},
        },
        openapi_extra={**json_body(PutRequest), "parameters": [IF_MATCH, CREATE_ONLY]},
    )
    def put_document(
        name: NameInPath,
        document: IdInPath,
        asked: Annotated[Conditions, Depends(conditions)],
        body: Annotated[dict[str, Any], Depends(json_object)],
        response: Response,
    ) -> PutView:
        """Put a document into a managed collection: a new one, or in place of the one with this id.

        New content, title or source is embedded in the background; what was embedded before is found until then. The
        same again changes nothing, other metadata is stored at once, and a document that failed is tried again.
        """
        identifier = checked_id(document)
        refuse_unknown(body, known=PutRequest.model_fields)
        # A wrong document is said before an absent collection, so it is checked before the name is.
        checked_document({**body, "id": identifier}, content_min_chars=1)
        result = knowledge.put_document(
            existing_name(name),
            identifier,
            body["content"],
            title=body.get("title"),
            source=body.get("source"),
            metadata=body.get("metadata"),
            precondition=asked.check_put,
        )
        response.headers["ETag"] = entity_tag(result.version, result.updated_at)
        if not result.accepted:
            response.status_code = 200
        return put_view(result)

    @router.delete(
        "/{id:segment}",
        status_code=204,
        response_class=Response,
        responses=problems(404, 409, 412),
        openapi_extra={"parameters": [IF_MATCH]},
    )
    def delete_document(
        name: NameInPath, document: IdInPath, asked: Annotated[Conditions, Depends(conditions)]
    ) -> None:
        """Delete a document of a managed collection. It is gone from the next search and stays deleted."""
        identifier = checked_id(document)
        knowledge.delete_document(existing_name(name), identifier, precondition=asked.check_delete)

    return router
