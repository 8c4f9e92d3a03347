"""A query is embedded once for each model, and not at all the second time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from knowledge_worker.service.query_vectors import KEPT
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Make, declared, indexed


def asked(provider: ScriptedProvider, query: str) -> list[str]:
    """The models that were asked for the vector of a query."""
    return sorted(request.model for request in provider.requests if query in request.texts)


def test_one_call_for_each_model_and_none_the_second_time(make: Make, provider: ScriptedProvider) -> None:
    knowledge = indexed(
        make,
        declared("first", {"a": "apples"}),
        declared("second", {"b": "pears"}),
        declared("third", {"c": "plums"}, model="fake/model-b"),
        declared("words", {"d": "figs"}, model=None),
    )
    first = knowledge.search("sweet fruit")
    assert asked(provider, "sweet fruit") == ["model-a", "model-b"]
    assert knowledge.search("sweet fruit") == first
    knowledge.search("sweet fruit", collections=["second"], mode="semantic", top_k=1)
    assert asked(provider, "sweet fruit") == ["model-a", "model-b"]
    knowledge.search("sweet fruits", mode="lexical")
    assert asked(provider, "sweet fruits") == []


def test_a_failure_is_not_kept(make: Make, provider: ScriptedProvider) -> None:
    knowledge = indexed(make, declared("docs", {"a": "apples"}))
    provider.script(Rule(status=500, times=1))
    assert knowledge.search("apples").degraded
    assert not knowledge.search("apples").degraded
    assert asked(provider, "apples") == ["model-a"] * 2 + ["model-a"], "the document, and the query twice"


def test_the_oldest_query_is_forgotten_and_threads_do_not_mind(make: Make, provider: ScriptedProvider) -> None:
    knowledge = indexed(make, declared("docs", {"a": "apples"}))
    queries = [f"query {number}" for number in range(KEPT + 1)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda query: knowledge.search(query, mode="semantic"), queries))
    assert {len(result.matches) for result in results} == {1}
    knowledge.search("query 200", mode="semantic")
    assert len(asked(provider, "query 200")) == 1
    for query in queries[:50]:
        knowledge.search(query, mode="semantic")
    assert sum(len(asked(provider, query)) for query in queries) > len(queries)
