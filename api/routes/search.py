"""Search: the same question as a JSON body or as a query string."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from annotated_types import Interval
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from knowledge_worker.domain.filters import CONDITIONS_MAX, VALUES_MAX, Operator
from knowledge_worker.domain.limits import (
    ID_MAX_CHARS,
    NAME_MAX_CHARS,
    PER_DOCUMENT_DEFAULT,
    QUERY_MAX_CHARS,
    RESULTS_DEFAULT,
    RESULTS_MAX,
    TITLE_MAX_CHARS,
)
from knowledge_worker.domain.ranking import SearchMode

from ..body import WholeNumber, checked, json_object
from ..openapi import json_body, problems
from ..parameters import DIGITS, NAME_PATTERN, Absent
from ..views import SearchView, search_view

if TYPE_CHECKING:
    from knowledge_worker.knowledge import Knowledge


# Only described here; the search itself refuses what breaks these two, with a message of its own.
_NOT_BLANK: JsonDict = {"pattern": r"\S"}
_NAME: JsonDict = {"pattern": NAME_PATTERN, "maxLength": NAME_MAX_CHARS}

_LEXICAL_WITH_COSINE: JsonDict = {
    "properties": {"mode": {"const": "lexical"}, "minScore": {"type": "number"}},
    "required": ["mode", "minScore"],
}

_MODE = "By meaning, by words, or by both, which is the default; with `minScore` the default is `semantic`."
_MIN_SCORE = "The least cosine similarity of a match; not for searches by words alone."
_PER_DOCUMENT = "Matches of one document that come before those of others run out."
_EXPLAIN = "Whether each match says its rank and score in each leg."
_METADATA = (
    "Keys of the metadata: a value (equal), a list of values (any of them), or an object of the operators "
    "`eq`, `in`, `exists`, `gt`, `gte`, `lt`, `lte`."
)
_ID_PREFIX = "Documents whose id begins with this."
_SOURCE = "Documents with exactly this source."

_SCALAR: JsonDict = {"type": ["string", "number", "boolean", "null"]}
_SCALARS: JsonDict = {"type": "array", "items": _SCALAR, "minItems": 1, "maxItems": VALUES_MAX}
_BOUND: JsonDict = {"type": ["string", "number"]}
_OPERANDS: Final[dict[Operator, JsonDict]] = {
    "eq": _SCALAR,
    "in": _SCALARS,
    "exists": {"type": "boolean"},
    "gt": _BOUND,
    "gte": _BOUND,
    "lt": _BOUND,
    "lte": _BOUND,
}
# Only described here; checked_filters() refuses what breaks it.
_CONDITIONS: dict[str, Any] = {
    "type": "object",
    "maxProperties": CONDITIONS_MAX,
    "additionalProperties": {
        "anyOf": [
            _SCALAR,
            _SCALARS,
            {"type": "object", "properties": {**_OPERANDS}, "additionalProperties": False, "minProperties": 1},
        ]
    },
}


class FiltersRequest(BaseModel):
    """Only documents for which all of these hold."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        strict=True,
        frozen=True,
        json_schema_extra={"examples": [{"metadata": {"team": "support", "year": {"gte": 2020}}}]},
    )

    metadata: Annotated[dict[str, Any], WithJsonSchema(_CONDITIONS)] | None = Field(default=None, description=_METADATA)
    id_prefix: str | None = Field(default=None, min_length=1, max_length=ID_MAX_CHARS, description=_ID_PREFIX)
    source: str | None = Field(default=None, min_length=1, max_length=TITLE_MAX_CHARS, description=_SOURCE)


class SearchRequest(BaseModel):
    """What to look for."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        strict=True,
        frozen=True,
        json_schema_extra={
            "examples": [{"query": "How do refunds work?", "collections": ["handbook"], "topK": 5}],
            "not": _LEXICAL_WITH_COSINE,
        },
    )

    query: str = Field(min_length=1, max_length=QUERY_MAX_CHARS, json_schema_extra=_NOT_BLANK)
    collections: list[Annotated[str, Field(json_schema_extra=_NAME)]] | None = Field(
        default=None, min_length=1, description="Where to look; in all collections when it is left out."
    )
    top_k: WholeNumber = Field(default=RESULTS_DEFAULT, ge=1, le=RESULTS_MAX, description="The most matches.")
    min_score: float | None = Field(default=None, ge=-1, le=1, allow_inf_nan=False, description=_MIN_SCORE)
    mode: Annotated[SearchMode, Field(strict=False)] | None = Field(default=None, description=_MODE)
    filters: FiltersRequest | None = None
    per_document: WholeNumber = Field(default=PER_DOCUMENT_DEFAULT, ge=1, le=RESULTS_MAX, description=_PER_DOCUMENT)
    explain: bool = Field(default=False, description=_EXPLAIN)


def search_router(knowledge: Knowledge) -> APIRouter:
    """The routes at ``/search``."""
    router = APIRouter(prefix="/search", tags=["search"], responses=problems(404, 409))

    @router.post("", responses=problems(413), openapi_extra=json_body(SearchRequest))
    def search(body: Annotated[dict[str, Any], Depends(json_object)]) -> SearchView:
        """Search by meaning and by words."""
        asked = checked(SearchRequest, body)
        return search_view(
            knowledge.search(
                asked.query,
                collections=asked.collections,
                top_k=asked.top_k,
                min_score=asked.min_score,
                mode=asked.mode,
                filters=None if asked.filters is None else asked.filters.model_dump(),
                per_document=asked.per_document,
                explain=asked.explain,
            )
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
            list[Annotated[str, Field(json_schema_extra=_NAME)]] | Absent,
            Query(description="Where to look; may be given several times.", examples=[["handbook"]]),
        ] = None,
        collections: Annotated[
            list[Annotated[str, Field(json_schema_extra=_NAME)]] | Absent,
            Query(description="The same as `collection`; those of both are searched.", examples=[["handbook"]]),
        ] = None,
        top_k: Annotated[
            int, Interval(ge=1, le=RESULTS_MAX), DIGITS, Query(alias="topK", description="The most matches.")
        ] = RESULTS_DEFAULT,
        min_score: Annotated[
            Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] | Absent,
            Query(alias="minScore", description=_MIN_SCORE, examples=[0.2]),
        ] = None,
        mode: Annotated[SearchMode | Absent, Query(description=_MODE, examples=["semantic"])] = None,
        id_prefix: Annotated[
            Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)] | Absent,
            Query(alias="idPrefix", description=_ID_PREFIX, examples=["guides/"]),
        ] = None,
        source: Annotated[
            Annotated[str, Field(min_length=1, max_length=TITLE_MAX_CHARS)] | Absent,
            Query(description=_SOURCE, examples=["https://example.com/setup"]),
        ] = None,
        per_document: Annotated[
            int, Interval(ge=1, le=RESULTS_MAX), DIGITS, Query(alias="perDocument", description=_PER_DOCUMENT)
        ] = PER_DOCUMENT_DEFAULT,
        explain: Annotated[bool, Query(description=_EXPLAIN)] = False,
    ) -> SearchView:
        """Search with the question in the query string; filters on metadata are for the other method."""
        filters = {"id_prefix": id_prefix, "source": source}
        return search_view(
            knowledge.search(
                q,
                collections=[*(collection or ()), *(collections or ())] or None,
                top_k=top_k,
                min_score=min_score,
                mode=mode,
                filters=filters if any(filters.values()) else None,
                per_document=per_document,
                explain=explain,
            )
        )

    return router
