"""A search request, checked (specification rules 59 and 60)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from knowledge_worker.domain.document import is_blank, storable
from knowledge_worker.domain.limits import QUERY_MAX_CHARS, RESULTS_DEFAULT, RESULTS_MAX
from knowledge_worker.domain.names import collection_name
from knowledge_worker.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What is searched, where, and how much is wanted.

    Attributes:
        collections: names, each once; None for all that can be searched.
        min_score: cosine similarity that a match has at least, -1 to 1.
    """

    query: str
    collections: tuple[str, ...] | None
    top_k: int
    min_score: float | None


def checked_request(
    query: object,
    *,
    collections: Iterable[object] | str | None = None,
    top_k: object = RESULTS_DEFAULT,
    min_score: object = None,
) -> SearchRequest:
    """Check what a caller asks.

    Raises:
        InvalidInputError: ``field`` names the value that breaks a rule.
    """
    if not isinstance(query, str):
        raise InvalidInputError("The query is text.", field="query")
    if not query or is_blank(query):
        raise InvalidInputError("The query is empty.", field="query")
    if len(query) > QUERY_MAX_CHARS:
        raise InvalidInputError(
            f"The query has {len(query)} characters; at most {QUERY_MAX_CHARS} are allowed.", field="query"
        )
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= RESULTS_MAX:
        raise InvalidInputError(f"topK is a whole number from 1 to {RESULTS_MAX}.", field="topK")
    if min_score is not None and (
        isinstance(min_score, bool)
        or not isinstance(min_score, int | float)
        or not math.isfinite(min_score)
        or not -1 <= min_score <= 1
    ):
        raise InvalidInputError("minScore is a number from -1 to 1.", field="minScore")
    names: tuple[str, ...] | None = None
    if collections is not None:
        given = [collections] if isinstance(collections, str) else list(collections)
        if not given:
            raise InvalidInputError(
                "collections is an empty list: name at least one, or leave it out to search all.", field="collections"
            )
        names = tuple(dict.fromkeys(_name(one) for one in given))
    return SearchRequest(query=storable(query), collections=names, top_k=top_k, min_score=min_score)


def _name(value: object) -> str:
    try:
        return collection_name(value)
    except InvalidInputError as error:
        raise InvalidInputError(error.message, field="collections") from None
