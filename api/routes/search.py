"""Search: the same question as a JSON body or as a query string."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from knowledge_worker.domain.limits import NAME_MAX_CHARS, QUERY_MAX_CHARS, RESULTS_DEFAULT, RESULTS_MAX

from ..body import WholeNumber, checked, json_object
from ..openapi import json_body, problems
from ..parameters import NAME_PATTERN, Count
from ..views import SearchView, search_view

if TYPE_CHECKING:
    from knowledge_worker.knowledge import Knowledge


# Only described here; the search itself refuses what breaks these two, with a message of its own.
_NOT_BLANK: JsonDict = {"pattern": r"\S"}
_NAME: JsonDict = {"pattern": NAME_PATTERN, "maxLength": NAME_MAX_CHARS}


class SearchRequest(BaseModel):
    """What to look for."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        strict=True,
        frozen=True,
        json_schema_extra={"examples": [{"query": "How do refunds work?", "collections": ["handbook"], "topK": 5}]},
    )

    query: str = Field(min_length=1, max_length=QUERY_MAX_CHARS, json_schema_extra=_NOT_BLANK)
    collections: list[Annotated[str, Field(json_schema_extra=_NAME)]] | None = Field(
        default=None, min_length=1, description="Where to look; in all collections when it is left out."
    )
    top_k: WholeNumber = Field(default=RESULTS_DEFAULT, ge=1, le=RESULTS_MAX, description="The most matches.")
    min_score: float | None = Field(
        default=None, ge=-1, le=1, allow_inf_nan=False, description="The least cosine similarity of a match."
    )


def search_router(knowledge: Knowledge) -> APIRouter:
    """The routes at ``/search``."""
    router = APIRouter(prefix="/search", tags=["search"], responses=problems(404, 409))

    @router.post("", responses=problems(413), openapi_extra=json_body(SearchRequest))
    def search(body: Annotated[dict[str, Any], Depends(json_object)]) -> SearchView:
        """Search by meaning."""
        asked = checked(SearchRequest, body)
        return search_view(
            knowledge.search(asked.query, collections=asked.collections, top_k=asked.top_k, min_score=asked.min_score)
        )

    @router.get("")
    def search_by_link(
        q: Annotated[
            str,
            Query(
                min_length=1,
                max_length=QUERY_MAX_CHARS,
                examples=["How do refunds work?"],
                json_schema_extra=_NOT_BLANK,
            ),
        ],
        collection: Annotated[
            list[Annotated[str, Field(json_schema_extra=_NAME)]] | None,
            Query(description="Where to look; may be given several times."),
        ] = None,
        collections: Annotated[
            list[Annotated[str, Field(json_schema_extra=_NAME)]] | None,
            Query(description="The same as `collection`; those of both are searched."),
        ] = None,
        top_k: Annotated[Count, Query(alias="topK", ge=1, le=RESULTS_MAX)] = RESULTS_DEFAULT,
        min_score: Annotated[float | None, Query(alias="minScore", ge=-1, le=1, allow_inf_nan=False)] = None,
    ) -> SearchView:
        """Search by meaning, with the question in the query string."""
        names = [*(collection or ()), *(collections or ())] or None
        return search_view(knowledge.search(q, collections=names, top_k=top_k, min_score=min_score))

    return router
