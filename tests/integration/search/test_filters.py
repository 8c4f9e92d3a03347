"""Filters never cost results: what is found is what a look at every document finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from knowledge_worker import Knowledge
from knowledge_worker.testing.provider import ScriptedProvider

from .conftest import Make, bm25, cosines, declared, indexed, made_texts, names, ranked

COUNT = 1500
"""More than may pass a filter of a generation with an index for all of them to be looked at."""
QUERY = "red apple by the river"

Document = dict[str, Any]


def made_documents() -> dict[str, Document]:
    texts = made_texts(COUNT)
    return {
        f"{'guide' if n % 3 else 'note'}/{identifier}": {
            "content": text,
            "source": f"https://example.com/{n % 5}?q=100%",
            "metadata": {
                "team": ["support", "sales", "ops"][n % 3],
                "tags": [f"t{n % 4}", f"t{n % 6}"],
                "year": 2000 + n % 30,
                "price": n / 2,
                "date": f"2026-{1 + n % 12:02}-01",
                "rare": n % 500 == 7,
                "mixed": [n, str(n), None, True][n % 4],
                "a'b:c %s \\": f"x'{n % 7}:y",
                **({"draft": None} if n % 10 == 0 else {}),
            },
        }
        for n, (identifier, text) in enumerate(texts.items())
    }


DOCUMENTS = made_documents()


Holds = Callable[[str, Document], bool]


def metadata(**conditions: Any) -> dict[str, Any]:
    return {"metadata": conditions}


def holds(key: str, test: Callable[[Any], bool]) -> Holds:
    return lambda _, one: key in one["metadata"] and test(one["metadata"][key])


FILTERS: list[tuple[dict[str, Any], Holds]] = [
    (metadata(team="support"), holds("team", lambda team: team == "support")),
    (metadata(team=["support", "ops"]), holds("team", lambda team: team != "sales")),
    (metadata(tags="t1"), holds("tags", lambda tags: "t1" in tags)),
    (metadata(tags={"in": ["t5", "t9"]}), holds("tags", lambda tags: "t5" in tags)),
    (metadata(year={"gte": 2010, "lt": 2012}), holds("year", lambda year: 2010 <= year < 2012)),
    (metadata(price={"gt": 99.5, "lte": 100}), holds("price", lambda price: 99.5 < price <= 100)),
    (metadata(date={"gte": "2026-11-01"}), holds("date", lambda date: date >= "2026-11-01")),
    (metadata(year=2007.0), holds("year", lambda year: year == 2007)),
    (metadata(year="2007"), lambda _, one: False),
    (metadata(year={"gt": "2007"}), lambda _, one: False),
    (metadata(rare=True), holds("rare", lambda rare: rare)),
    (metadata(rare=1), lambda _, one: False),
    (metadata(mixed=None), holds("mixed", lambda mixed: mixed is None)),
    (metadata(mixed=True), holds("mixed", lambda mixed: mixed is True)),
    (metadata(mixed={"gt": 100}), holds("mixed", lambda mixed: type(mixed) is int and mixed > 100)),
    (metadata(draft={"exists": True}), holds("draft", lambda draft: True)),
    (metadata(draft={"exists": False}, rare=True),
     lambda _, one: one["metadata"]["rare"] and "draft" not in one["metadata"]),
    (metadata(team="sales", year={"gte": 2020}),
     lambda _, one: one["metadata"]["team"] == "sales" and one["metadata"]["year"] >= 2020),
    (metadata(**{"a'b:c %s \\": "x'3:y"}), holds("a'b:c %s \\", lambda value: value == "x'3:y")),
    (metadata(unknown="x"), lambda _, one: False),
    ({"id_prefix": "note/"}, lambda identifier, _: identifier.startswith("note/")),
    ({"id_prefix": "note/d00"}, lambda identifier, _: identifier.startswith("note/d00")),
    ({"id_prefix": "note/%"}, lambda identifier, _: False),
    ({"source": "https://example.com/3?q=100%"}, lambda _, one: one["source"] == "https://example.com/3?q=100%"),
    ({"id_prefix": "guide/", "source": "https://example.com/3?q=100%", **metadata(rare=True)},
     lambda identifier, one: identifier.startswith("guide/") and "/3?" in one["source"] and one["metadata"]["rare"]),
]  # fmt: skip


@pytest.mark.parametrize("threshold", [10_000, 50], ids=["shared table", "own table"])
def test_a_filter_finds_what_a_look_at_every_document_finds(make: Make, threshold: int) -> None:
    knowledge = indexed(make, declared("docs", DOCUMENTS), own_table_chunks=threshold)
    near = cosines(QUERY, {identifier: one["content"] for identifier, one in DOCUMENTS.items()})
    worded = bm25(QUERY, {identifier: one["content"] for identifier, one in DOCUMENTS.items()})
    for filters, passes in FILTERS:
        allowed = {identifier for identifier, one in DOCUMENTS.items() if passes(identifier, one)}
        semantic = _found(knowledge, "semantic", filters)
        best = sorted((near[one] for one in allowed), reverse=True)[:20]
        assert set(semantic) <= allowed, filters
        assert list(semantic.values()) == pytest.approx(best, abs=2e-3), filters
        lexical = _found(knowledge, "lexical", filters)
        right = ranked({one: score for one, score in worded.items() if one in allowed})[:20]
        assert set(lexical) <= allowed, filters
        assert len(lexical) == len(right), filters
        if threshold > COUNT:  # an own table's common words are counted now and then, so scores differ a little
            assert list(lexical.values()) == pytest.approx([worded[one] for one in right], rel=1e-3), filters
        hybrid = _found(knowledge, "hybrid", filters)
        assert set(hybrid) <= allowed, filters
        assert len(hybrid) == min(20, len(allowed)), filters


def _found(knowledge: Knowledge, mode: str, filters: Mapping[str, Any]) -> dict[str, float]:
    result = knowledge.search(QUERY, mode=mode, filters=filters, top_k=20)
    assert len(set(names(result))) == len(result.matches)
    return {match.document: match.score for match in result.matches}


def test_a_filter_and_a_least_score_hold_together(make: Make) -> None:
    knowledge = indexed(make, declared("docs", DOCUMENTS))
    near = cosines(QUERY, {identifier: one["content"] for identifier, one in DOCUMENTS.items()})
    least = sorted(near.values())[-45]
    allowed = {one for one in DOCUMENTS if near[one] >= least and DOCUMENTS[one]["metadata"]["team"] == "ops"}
    found = knowledge.search(QUERY, min_score=least, filters=metadata(team="ops"), top_k=20)
    assert 10 <= len(allowed) <= 20
    assert len(found.matches) == pytest.approx(len(allowed), abs=1)


def test_filters_hold_in_every_collection_that_is_searched(make: Make) -> None:
    some = {one: DOCUMENTS[one] for one in list(DOCUMENTS)[:300]}
    knowledge = indexed(
        make, declared("small", some), declared("large", DOCUMENTS, model="fake/model-b"), own_table_chunks=1000
    )
    result = knowledge.search(QUERY, filters=metadata(rare=True), top_k=20)
    assert {(match.collection, match.document) for match in result.matches} == {
        *(("small", one) for one in some if DOCUMENTS[one]["metadata"]["rare"]),
        *(("large", one) for one in DOCUMENTS if DOCUMENTS[one]["metadata"]["rare"]),
    }


def test_changed_metadata_is_what_a_filter_sees_without_embedding(make: Make, provider: ScriptedProvider) -> None:
    knowledge = make()
    knowledge.create_collection("notes")
    knowledge.put_document("notes", "a", "apples", metadata={"team": "sales"})
    knowledge.run_pass("notes")
    calls = len(provider.requests)
    knowledge.put_document("notes", "a", "apples", metadata={"team": "ops"})
    assert names(knowledge.search("apples", filters=metadata(team="ops"), mode="lexical")) == ["a"]
    assert names(knowledge.search("apples", filters=metadata(team="sales"), mode="lexical")) == []
    assert len(provider.requests) == calls
