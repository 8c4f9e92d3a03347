"""Whatever is asked, a search answers or refuses by one of the documented errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from knowledge_worker import Knowledge, create_app
from knowledge_worker.config import Settings
from knowledge_worker.domain.limits import QUERY_MAX_CHARS
from knowledge_worker.errors import InvalidInputError, NotSearchableError

from .conftest import Make, declared, indexed, made_texts

TOKEN = "a-token-for-tests-0123456789"
ODD = [
    "a\x00b", "\ud800", "!!! ??? ...", "'", "''", "\\", "\\'", "'; drop table chunks; --", "%s %(query)s %%", ":query",
    ":keys::int", "a & b | !c <-> d:*", "((((", "'a' <2> 'b'", "$1", "{1,2}", "\\x3a", "E'\\'", "x" * QUERY_MAX_CHARS,
    "☃" * QUERY_MAX_CHARS, "東" * QUERY_MAX_CHARS, "a " * (QUERY_MAX_CHARS // 2), "http://a.b/c?d=%20&e='f:g\\h'#i",
    "user@example.com", "-1.5e10", "/usr/bin/../x", "<a href='b'>", "&amp;", "İıſßﬀ", "\u202e\u2066", "🏳️‍🌈",
    "a\u0301" * 300, "\U0003fffd", " ".join(f"word{n}" for n in range(140)), "1/2 3/4", "C:\\dir\\file",
]  # fmt: skip


@pytest.fixture
def knowledge(make: Make) -> Knowledge:
    """A shared and an own table, and one in a language with stems; odd texts are among the documents."""
    texts = made_texts(60) | {f"odd{n}": f"{text[:500]} river" for n, text in enumerate(ODD)}
    return indexed(
        make,
        declared("small", dict(list(texts.items())[-30:])),
        declared("large", texts),
        declared("english", texts, model=None, language="english"),
        own_table_chunks=50,
    )


QUERIES = st.one_of(
    st.text(max_size=QUERY_MAX_CHARS + 1),
    st.text(alphabet="'\\:%|&!()<->*$ \x00ab{}[]\"/.@-_1", max_size=60),
    st.text(alphabet=st.characters(categories=["P", "S", "M", "Z", "C", "Cs"]), max_size=60),
    st.sampled_from(ODD),
    st.tuples(st.sampled_from(ODD), st.sampled_from(ODD)).map("".join),
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=50), st.sampled_from(ODD[:20]),
    st.integers(10**400, 10**401),
)  # fmt: skip
CONDITIONS = st.one_of(
    VALUES,
    st.lists(VALUES, max_size=4),
    st.dictionaries(st.sampled_from(["eq", "in", "exists", "gt", "gte", "lt", "lte", "near"]), VALUES, max_size=2),
)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.dictionaries(st.text(max_size=20) | st.sampled_from(ODD[:20]), CONDITIONS, max_size=3),
        "id_prefix": st.text(max_size=20) | st.sampled_from(ODD[:20]),
        "source": st.text(max_size=20) | st.sampled_from(ODD[:20]),
    },
)
MODES = st.sampled_from(["semantic", "lexical", "hybrid"])
QUIET = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def test_anything_is_answered_or_refused(knowledge: Knowledge) -> None:
    @QUIET
    @given(query=QUERIES, mode=MODES, filters=st.none() | FILTERS, top_k=st.integers(1, 20))
    def run(query: str, mode: str, filters: Any, top_k: int) -> None:
        try:
            result = knowledge.search(query, mode=mode, filters=filters, top_k=top_k)
        except InvalidInputError as error:
            assert error.field in ("query", "filters")  # noqa: PT017
        else:
            assert len(result.matches) <= top_k
            assert result.degraded is None

    for query in ODD:
        run = example(query=query, mode="hybrid", filters=None, top_k=5)(run)
    run()


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_what_odd_texts_hold_is_found_by_it(knowledge: Knowledge, mode: str) -> None:
    found = knowledge.search("http://a.b/c?d=%20&e='f:g\\h'#i", mode=mode, collections="large")
    assert found.matches[0].text.startswith("http://a.b/c")
    found = knowledge.search("who is user@example.com", mode=mode, collections="large")
    assert found.matches[0].text.startswith("user@example.com")


def test_over_http_nothing_is_an_error_of_ours(knowledge: Knowledge) -> None:
    token = json.dumps([{"value": TOKEN, "id": "t", "permissions": ["knowledge:read"]}])
    served = knowledge.settings.model_copy(update={"tokens": Settings(tokens=token).tokens})
    app = create_app(knowledge.with_settings(served))
    client = TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"}, raise_server_exceptions=False)

    @QUIET
    @given(query=QUERIES, mode=MODES, filters=st.none() | FILTERS)
    def run(query: str, mode: str, filters: Any) -> None:
        shown = None if filters is None else {_camel(key): value for key, value in filters.items()}
        body = json.dumps({"query": query, "mode": mode, "filters": shown}).encode()
        answer = client.post("/knowledge/search", content=body)
        assert answer.status_code in (200, 400), answer.text
        if answer.status_code == 400:
            assert set(answer.json()) == {"error"}

    run()


def _camel(key: str) -> str:
    return "idPrefix" if key == "id_prefix" else key


def test_names_of_anything_are_refused(knowledge: Knowledge) -> None:
    for name in ODD:
        with pytest.raises((InvalidInputError, NotSearchableError)):
            knowledge.search("x", collections=[name])
