"""Collections: list, create, get, delete, sync, passes, plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from annotated_types import Interval
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from knowledge_worker.domain.language import LANGUAGES, SIMPLE
from knowledge_worker.domain.limits import DESCRIPTION_MAX_CHARS, NAME_MAX_CHARS, TITLE_MAX_CHARS

from ..body import checked, json_object, optional_json_object
from ..known import refuse_unknown
from ..openapi import json_body, problems
from ..parameters import DIGITS, NAME_PATTERN, NameInPath, existing_name
from ..paths import BASE
from ..views import (
    CollectionListView,
    CollectionView,
    PassListView,
    PlanView,
    SyncView,
    collection_list_view,
    collection_view,
    pass_list_view,
    plan_view,
)

if TYPE_CHECKING:
    from knowledge_worker.knowledge import Knowledge

_FORCE = "Also while a failure's waiting time runs."
_CONFIRM_DELETES = "Carry out deletions that were held back."
_LOCATION: Final = {"Location": {"description": "Its path.", "schema": {"type": "string"}}}


class SyncRequest(BaseModel):
    """What to ask for; the query parameters of the same names do too."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        strict=True,
        frozen=True,
        json_schema_extra={"examples": [{"force": True}]},
    )

    force: bool = Field(default=False, description=_FORCE)
    confirm_deletes: bool = Field(default=False, description=_CONFIRM_DELETES)


class CreateRequest(BaseModel):
    """A managed collection to create."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "handbook", "title": "Handbook", "description": "How we work."}]},
    )

    name: str = Field(
        pattern=NAME_PATTERN, max_length=NAME_MAX_CHARS, description="Lowercase words of a-z and 0-9 joined by `-`."
    )
    title: str | None = Field(default=None, max_length=TITLE_MAX_CHARS)
    description: str | None = Field(default=None, max_length=DESCRIPTION_MAX_CHARS)
    language: str | None = Field(
        default=None,
        json_schema_extra={"enum": [*LANGUAGES, None]},
        description="That words are taken in, for searches by words; `simple` takes them as they are.",
    )


def collections_router(knowledge: Knowledge) -> APIRouter:
    """The routes below ``/collections``."""
    router = APIRouter(prefix="/collections", tags=["collections"])

    @router.get("", responses=problems())
    def list_collections() -> CollectionListView:
        """List all collections, those included that no worker has indexed yet."""
        return collection_list_view(knowledge.collections())

    @router.post(
        "",
        status_code=201,
        responses={**problems(409, 413), 201: {"headers": _LOCATION}},
        openapi_extra=json_body(CreateRequest),
    )
    def create_collection(
        request: Request, response: Response, body: Annotated[dict[str, Any], Depends(json_object)]
    ) -> CollectionView:
        """Create a managed collection: empty, untrusted, embedded with the default model."""
        refuse_unknown(body, known=CreateRequest.model_fields)
        # A name that is missing is refused by the rule for names, as a wrong one is.
        created = knowledge.create_collection(
            body.get("name"),  # pyright: ignore[reportArgumentType]
            title=body.get("title"),
            description=body.get("description"),
            language=SIMPLE if body.get("language") is None else body["language"],
        )
        response.headers["Location"] = f"{request.scope['root_path']}/{BASE}/collections/{created.name}"
        return collection_view(created)

    @router.get("/{name:segment}", responses=problems(404))
    def get_collection(name: NameInPath) -> CollectionView:
        """Get one collection: its status, its last error, its counts."""
        return collection_view(knowledge.collection(existing_name(name)))

    @router.delete("/{name:segment}", status_code=204, response_class=Response, responses=problems(404, 409))
    def delete_collection(name: NameInPath) -> None:
        """Delete a managed collection, or one that no code declares any more, with everything in it."""
        knowledge.delete_collection(existing_name(name))

    @router.post(
        "/{name:segment}/sync",
        status_code=202,
        responses=problems(404, 413),
        openapi_extra=json_body(SyncRequest, required=False),
    )
    def sync_collection(
        name: NameInPath,
        body: Annotated[dict[str, Any], Depends(optional_json_object)],
        force: Annotated[bool, Query(description=_FORCE)] = False,
        confirm_deletes: Annotated[bool, Query(alias="confirmDeletes", description=_CONFIRM_DELETES)] = False,
    ) -> SyncView:
        """Ask for a pass. The request is stored before it is answered; a running pass is followed by one more."""
        asked = checked(SyncRequest, body)
        known = existing_name(name)
        knowledge.sync(known, force=force or asked.force, confirm_deletes=confirm_deletes or asked.confirm_deletes)
        return SyncView(name=known)

    @router.get("/{name:segment}/passes", responses=problems(404))
    def list_passes(
        name: NameInPath,
        limit: Annotated[int, Interval(ge=1, le=100), DIGITS, Query(description="The most passes to list.")] = 20,
    ) -> PassListView:
        """List the last passes, newest first."""
        return pass_list_view(knowledge.passes(existing_name(name), limit=limit))

    @router.get("/{name:segment}/plan", responses=problems(404, 502))
    def plan_pass(name: NameInPath) -> PlanView:
        """Show what a pass would do now. The sources are read for it; nothing is written and nothing embedded."""
        return plan_view(knowledge.plan(existing_name(name)))

    return router
