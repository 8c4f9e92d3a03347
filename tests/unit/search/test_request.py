"""A request as callers write it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_worker.domain.limits import QUERY_MAX_CHARS, RESULTS_MAX
from knowledge_worker.domain.ranking import SearchMode
from knowledge_worker.errors import InvalidInputError
from knowledge_worker.search.request import checked_request

ANY = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.lists(st.text() | st.none())
)


def test_the_defaults() -> None:
    request = checked_request("x")
    assert (request.collections, request.top_k, request.per_document) == (None, 5, 3)
    assert (request.mode, request.min_score, request.explain) == (SearchMode.HYBRID, None, False)
    assert not request.filters


@pytest.mark.parametrize(
    ("mode", "min_score", "right"),
    [
        (None, None, "hybrid"),
        (None, 0.5, "semantic"),
        ("hybrid", 0.5, "hybrid"),
        ("semantic", None, "semantic"),
        (SearchMode.LEXICAL, None, "lexical"),
    ],
)
def test_a_least_similarity_asks_for_a_ranking_by_it(mode: Any, min_score: Any, right: str) -> None:
    assert checked_request("x", mode=mode, min_score=min_score).mode == right


def test_collections_are_taken_once_each_in_their_order() -> None:
    assert checked_request("x", collections=["b", "a", "b"]).collections == ("b", "a")
    assert checked_request("x", collections="one").collections == ("one",)
    assert checked_request("x", collections=iter(["a"])).collections == ("a",)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("query", {"query": None}),
        ("query", {"query": ""}),
        ("query", {"query": " \u200b\n"}),
        ("query", {"query": "x" * (QUERY_MAX_CHARS + 1)}),
        ("topK", {"top_k": 0}),
        ("topK", {"top_k": RESULTS_MAX + 1}),
        ("topK", {"top_k": True}),
        ("topK", {"top_k": 5.0}),
        ("minScore", {"min_score": 1.01}),
        ("minScore", {"min_score": float("nan")}),
        ("minScore", {"min_score": "0.5"}),
        ("minScore", {"min_score": 0.5, "mode": "lexical"}),
        ("mode", {"mode": "magic"}),
        ("mode", {"mode": 1}),
        ("collections", {"collections": []}),
        ("collections", {"collections": ["Not A Name"]}),
        ("collections", {"collections": [1]}),
        ("perDocument", {"per_document": 0}),
        ("perDocument", {"per_document": RESULTS_MAX + 1}),
        ("explain", {"explain": 1}),
        ("filters", {"filters": "team"}),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        checked_request(**{"query": "x", **values})
    assert raised.value.field == field


@given(
    st.fixed_dictionaries(
        {"query": ANY},
        optional=dict.fromkeys(
            ("collections", "top_k", "min_score", "mode", "filters", "per_document", "explain"), ANY
        ),
    )
)
def test_anything_is_checked_or_refused(values: dict[str, Any]) -> None:
    if isinstance(values.get("collections"), bool | int | float | bytes):
        values["collections"] = [values["collections"]]
    refused: InvalidInputError | None = None
    try:
        request = checked_request(**values)
    except InvalidInputError as error:
        refused = error
    if refused is not None:
        assert refused.field
    else:
        assert 1 <= len(request.query) <= QUERY_MAX_CHARS
        assert "\x00" not in request.query
        request.query.encode()
