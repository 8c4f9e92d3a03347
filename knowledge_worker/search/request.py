"""A search request, checked (specification rules 59 and 60)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from knowledge_worker.domain.document import is_blank, storable
from knowledge_worker.domain.filters import Filters, checked_filters
from knowledge_worker.domain.limits import PER_DOCUMENT_DEFAULT, QUERY_MAX_CHARS, RESULTS_DEFAULT, RESULTS_MAX
from knowledge_worker.domain.names import collection_name
from knowledge_worker.domain.ranking import SearchMode
from knowledge_worker.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What is searched, where, and how much is wanted.

    Attributes:
        collections: names, each once; None for all that can be searched.
        min_score: cosine similarity that a match has at least, -1 to 1.
        mode: what is compared.
        per_document: passages of one document that come before those of others run out.
        explain: whether each match says what the legs said of it.
    """

    query: str
    collections: tuple[str, ...] | None
    top_k: int
    min_score: float | None
    mode: SearchMode
    filters: Filters
    per_document: int
    explain: bool


def checked_request(
    query: object,
    *,
    collections: Iterable[object] | str | None = None,
    top_k: object = RESULTS_DEFAULT,
    min_score: object = None,
    mode: object = None,
    filters: object = None,
    per_document: object = PER_DOCUMENT_DEFAULT,
    explain: object = False,
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
    if isinstance(per_document, bool) or not isinstance(per_document, int) or not 1 <= per_document <= RESULTS_MAX:
        raise InvalidInputError(f"perDocument is a whole number from 1 to {RESULTS_MAX}.", field="perDocument")
    if not isinstance(explain, bool):
        raise InvalidInputError("explain is true or false.", field="explain")
    return SearchRequest(
        query=storable(query),
        collections=names,
        top_k=top_k,
        min_score=min_score,
        mode=_mode(mode, min_score),
        filters=checked_filters(filters),
        per_document=per_document,
        explain=explain,
    )


def _mode(value: object, min_score: float | None) -> SearchMode:
    if value is None:
        # A least cosine similarity asks for a ranking by it.
        return SearchMode.HYBRID if min_score is None else SearchMode.SEMANTIC
    try:
        mode = SearchMode(str(value))
    except ValueError:
        raise InvalidInputError(f"mode is one of: {', '.join(SearchMode)}.", field="mode") from None
    if mode is SearchMode.LEXICAL and min_score is not None:
        raise InvalidInputError(
            "minScore is a cosine similarity, which a lexical search has none of.", field="minScore"
        )
    return mode


def _name(value: object) -> str:
    try:
        return collection_name(value)
    except InvalidInputError as error:
        raise InvalidInputError(error.message, field="collections") from None
