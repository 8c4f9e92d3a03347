"""Collections: list, get, sync, passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query

from knowledge_worker.domain.names import CollectionName, collection_name
from knowledge_worker.errors import CollectionNotFoundError, InvalidInputError

from ..openapi import problems
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

NameInPath = Annotated[str, Path(description="The collection's name.", examples=["handbook"])]


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

    @router.post("/{name:segment}/sync", status_code=202, responses=problems(404))
    def sync_collection(
        name: NameInPath,
        force: Annotated[bool, Query(description="Also while a failure's waiting time runs.")] = False,
        confirm_deletes: Annotated[
            bool, Query(alias="confirmDeletes", description="Carry out deletions that were held back.")
        ] = False,
    ) -> SyncView:
        """Ask for a pass. The request is stored before it is answered; a running pass is followed by one more."""
        known = existing_name(name)
        knowledge.sync(known, force=force, confirm_deletes=confirm_deletes)
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
