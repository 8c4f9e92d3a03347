"""Filters as callers write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_worker.domain.document import INTEGER_MAX_BITS, checked_document
from knowledge_worker.domain.filters import CONDITIONS_MAX, VALUES_MAX, Condition, Filters, checked_filters
from knowledge_worker.errors import InvalidInputError

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JUNK = st.recursive(
    SCALARS | st.floats() | st.binary() | st.integers(min_value=10**5000),
    lambda inner: st.lists(inner) | st.dictionaries(SCALARS, inner),
    max_leaves=10,
)


def test_nothing_holds_for_every_document() -> None:
    assert checked_filters(None) == checked_filters({}) == checked_filters({"metadata": {}}) == Filters()
    assert not Filters()
    assert checked_filters({"id_prefix": "a"})
    assert checked_filters({"source": "a"})
    assert checked_filters({"metadata": {"a": None}})


def test_a_value_several_values_and_operators() -> None:
    checked = checked_filters(
        {"metadata": {"team": "a", "tag": ["b", 1], "year": {"gte": 2020, "lt": 2025}, "draft": {"exists": False}}}
    )
    assert checked.metadata == (
        Condition(key="team", operator="eq", value="a"),
        Condition(key="tag", operator="in", value=("b", 1)),
        Condition(key="year", operator="gte", value=2020),
        Condition(key="year", operator="lt", value=2025),
        Condition(key="draft", operator="exists", value=False),
    )
    assert checked_filters(checked) is checked


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        (["team"], "is an object"),
        ({"team": "a"}, 'not "team"'),
        ({"metadata": []}, "is an object"),
        ({"metadata": {1: 2}}, "key"),
        ({"metadata": {"a": {}}}, "operators are eq, in"),
        ({"metadata": {"a": {"near": 1}}}, '"near" is no operator'),
        ({"metadata": {"a": []}}, "1 to 100"),
        ({"metadata": {"a": list(range(VALUES_MAX + 1))}}, "1 to 100"),
        ({"metadata": {"a": {"in": "text"}}}, "list"),
        ({"metadata": {"a": {"exists": 1}}}, "true or false"),
        ({"metadata": {"a": {"gt": None}}}, "number or a text"),
        ({"metadata": {"a": {"gt": True}}}, "number or a text"),
        ({"metadata": {"a": {"eq": [1]}}}, "a text, a number"),
        ({"metadata": {"a": float("nan")}}, "a text, a number"),
        ({"metadata": {"a": 1 << INTEGER_MAX_BITS}}, "4000 digits"),
        ({"metadata": {str(n): n for n in range(CONDITIONS_MAX + 1)}}, "more than 20"),
        ({"id_prefix": ""}, "1 to 255"),
        ({"id_prefix": "a" * 256}, "1 to 255"),
        ({"id_prefix": 1}, "1 to 255"),
        ({"source": "a" * 1001}, "1 to 1000"),
    ],
)
def test_what_is_wrong_is_said(given_: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as raised:
        checked_filters(given_)
    assert raised.value.field == "filters"


@given(JUNK | st.fixed_dictionaries({"metadata": JUNK}) | st.fixed_dictionaries({"id_prefix": JUNK, "source": JUNK}))
def test_anything_is_checked_or_refused(value: Any) -> None:
    refused: InvalidInputError | None = None
    try:
        checked = checked_filters(value)
    except InvalidInputError as error:
        refused = error
    if refused is None:
        assert "\x00" not in checked.model_dump_json()
    else:
        assert refused.field == "filters"
        assert len(refused.message) < 300


@given(st.dictionaries(st.text(), SCALARS | st.lists(SCALARS, min_size=1, max_size=5), max_size=5))
def test_checked_filters_stay_as_they_are(metadata: dict[str, Any]) -> None:
    checked = checked_filters({"metadata": metadata})
    again = {one.key: {one.operator: list(one.value) if isinstance(one.value, tuple) else one.value}
             for one in checked.metadata}  # fmt: skip
    assert checked_filters({"metadata": again}) == checked


def test_a_number_too_long_to_be_written_is_no_metadata() -> None:
    with pytest.raises(InvalidInputError, match="4000 digits"):
        checked_document({"id": "a", "content": "b", "metadata": {"n": [10**5000]}})
    assert checked_document({"id": "a", "content": "b", "metadata": {"n": 10**3999}}).metadata["n"] == 10**3999
