"""Collections: list, get, sync, passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from knowledge_worker.domain.names import CollectionName, collection_name
from knowledge_worker.errors import CollectionNotFoundError, InvalidInputError

from ..body import checked, optional_json_object
from ..openapi import json_body, problems
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

_SHOWN_NAME_MAX_CHARS = 80

_FORCE = "Also while a failure's waiting time runs."
_CONFIRM_DELETES = "Carry out deletions that were held back."

NameInPath = Annotated[str, Path(description="The collection's name.", examples=["handbook"])]


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


def existing_name(name: str) -> CollectionName:
    """A name that a collection can have.

    Raises:
        CollectionNotFoundError: the name breaks the rule, so no collection has it.
    """
    try:
        return collection_name(name)
    except InvalidInputError:
        raise CollectionNotFoundError(name[:_SHOWN_NAME_MAX_CHARS]) from None


def collections_router(knowledge: Knowledge) -> APIRouter:
    """The routes below ``/collections``."""
    router = APIRouter(prefix="/collections", tags=["collections"])

    @router.get("", responses=problems())
    def list_collections() -> CollectionListView:
        """List all collections, those included that no worker has indexed yet."""
        return collection_list_view(knowledge.collections())

    @router.get("/{name:segment}", responses=problems(404))
    def get_collection(name: NameInPath) -> CollectionView:
        """Get one collection: its status, its last error, its counts."""
        return collection_view(knowledge.collection(existing_name(name)))

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
        name: NameInPath, limit: Annotated[int, Query(ge=1, le=100, description="The most passes to list.")] = 20
    ) -> PassListView:
        """List the last passes, newest first."""
        return pass_list_view(knowledge.passes(existing_name(name), limit=limit))

    @router.get("/{name:segment}/plan", responses=problems(404, 502))
    def plan_pass(name: NameInPath) -> PlanView:
        """Show what a pass would do now. The sources are read for it; nothing is written and nothing embedded."""
        return plan_view(knowledge.plan(existing_name(name)))

    return router
