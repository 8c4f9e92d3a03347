from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from knowledge_worker.domain.match import Explanation, Match, SearchResult, Unavailable
from knowledge_worker.domain.ranking import ScoreKind, SearchMode
from knowledge_worker.errors import (
    CollectionNotReadyError,
    EmbeddingRejectedError,
    EmbeddingUnavailableError,
    InvalidInputError,
    PreviousModelGoneError,
)

URL = "/knowledge/search"


def test_the_body_becomes_one_call(reader: TestClient, knowledge: Any) -> None:
    body = {"query": "refunds", "collections": ["a", "b"], "topK": 3, "minScore": 0}
    answer = reader.post(URL, json=body)
    assert (answer.status_code, answer.json()) == (200, {"matches": [], "truncated": False, "mode": "semantic"})
    assert knowledge.asked == [("search", "refunds", {"collections": ["a", "b"], "top_k": 3, "min_score": 0.0})]


def test_the_query_string_becomes_the_same_call(reader: TestClient, knowledge: Any) -> None:
    answer = reader.get(f"{URL}?q=refunds&collection=a&collection=b&topK=3&minScore=0")
    assert answer.status_code == 200
    assert knowledge.asked == [("search", "refunds", {"collections": ["a", "b"], "top_k": 3, "min_score": 0.0})]


@pytest.mark.parametrize(
    "query", ["collections=a&collections=b", "collection=a&collections=b", "collections=b&collection=a"]
)
def test_the_collections_of_a_link_may_be_named_in_the_plural(reader: TestClient, knowledge: Any, query: str) -> None:
    assert reader.get(f"{URL}?q=x&{query}").status_code == 200
    assert knowledge.asked == [("search", "x", {"collections": ["a", "b"]})]


@pytest.mark.parametrize("field", ["colections", "top_k", "min_score", "collection", "", "\u00e4", "\x00"])
def test_an_unknown_field_is_400_and_named_as_it_was_sent(reader: TestClient, knowledge: Any, field: str) -> None:
    answer = reader.post(URL, json={"query": "x", field: ["secret"]})
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, field)
    assert answer.json()["error"]["message"] == (
        f'"{field}": not known; known here: query, collections, topK, minScore, mode, filters, perDocument, explain.'
    )
    assert knowledge.asked == []


@pytest.mark.parametrize(("field", "shown"), [("\\ud800", "?"), ("x" * 5000, "x" * 80)])
def test_an_unknown_field_that_cannot_be_shown_as_it_is(reader: TestClient, field: str, shown: str) -> None:
    answer = reader.post(URL, content=f'{{"query": "x", "{field}": 1}}'.encode())
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, shown)


@pytest.mark.parametrize("field", ["topK", "minScore", "other"])
def test_a_number_that_python_cannot_read_is_400_and_called_so(reader: TestClient, knowledge: Any, field: str) -> None:
    answer = reader.post(URL, content=f'{{"query": "x", "{field}": {"9" * 5000}}}'.encode())
    assert answer.status_code == 400
    assert answer.json() == {"error": {"code": "invalid_input", "message": "A number in the body is too large."}}
    assert knowledge.asked == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"query": "a", "query": "b"}', "query"),
        (b'{"query": "a", "filters": {"metadata": {"k": 1, "k": 1}}}', "k"),
        (b'{"query": "a", "x\\ud800": 1, "x\\ud800": 2}', "x?"),
    ],
)
def test_a_field_given_twice_is_400_and_named(reader: TestClient, knowledge: Any, body: bytes, field: str) -> None:
    answer = reader.post(URL, content=body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, field)
    assert "several times" in answer.json()["error"]["message"]
    assert knowledge.asked == []


def test_only_the_query_is_needed(reader: TestClient, knowledge: Any) -> None:
    reader.post(URL, json={"query": "x", "collections": None, "minScore": None})
    reader.get(f"{URL}?q=x")
    assert knowledge.asked == [("search", "x", {})] * 2


def test_a_whole_number_may_be_written_with_a_point(reader: TestClient, knowledge: Any) -> None:
    assert reader.post(URL, content=b'{"query": "x", "topK": 3.0}').status_code == 200
    assert knowledge.asked == [("search", "x", {"top_k": 3})]


def test_a_match_shows_what_there_is(reader: TestClient, knowledge: Any) -> None:
    bare = Match(collection="a", document="d/1", index=0, text="t", score=0.5, lines=(1, 2), trusted=False)
    full = bare.model_copy(update={"title": "T", "source": "s", "section": ("One", "Two")})
    knowledge.found = SearchResult(
        matches=(bare, full), truncated=True, unavailable=(Unavailable(collection="b", reason="not ready"),)
    )
    base = {"collection": "a", "document": "d/1", "index": 0, "text": "t", "score": 0.5, "scoreKind": "cosine"}
    base["lines"] = [1, 2]
    assert reader.get(f"{URL}?q=x").json() == {
        "matches": [
            {**base, "trusted": False},
            {**base, "trusted": False, "title": "T", "source": "s", "section": ["One", "Two"]},
        ],
        "truncated": True,
        "unavailable": [{"collection": "b", "reason": "not ready"}],
        "mode": "semantic",
    }


def test_a_match_shows_how_it_was_ranked(reader: TestClient, knowledge: Any) -> None:
    said = Explanation(semantic_rank=None, cosine=None, lexical_rank=1, bm25=7.5, model="local/m")
    match = Match(collection="a", document="d", index=0, text="t", score=0.5, lines=(1, 1), trusted=True)
    ranked = match.model_copy(update={"score_kind": ScoreKind.FUSED, "explanation": said})
    knowledge.found = SearchResult(matches=(ranked,), mode=SearchMode.HYBRID, degraded="No answer.")
    answer = reader.get(f"{URL}?q=x&explain=true").json()
    assert (answer["mode"], answer["degraded"]) == ("hybrid", "No answer.")
    assert answer["matches"][0]["scoreKind"] == "fused"
    assert answer["matches"][0]["explanation"] == {"lexicalRank": 1, "bm25": 7.5, "model": "local/m"}


def test_mode_filters_diversity_and_explanation_are_passed_on(reader: TestClient, knowledge: Any) -> None:
    conditions = {"team": "support", "year": {"gte": 2020}, "kind": ["a", "b"]}
    filters = {"metadata": conditions, "idPrefix": "docs/", "source": "s"}
    body = {"query": "x", "mode": "lexical", "filters": filters, "perDocument": 1, "explain": True}
    assert reader.post(URL, json=body).status_code == 200
    assert reader.get(f"{URL}?q=x&mode=lexical&idPrefix=docs/&source=s&perDocument=1&explain=true").status_code == 200
    asked = {"mode": "lexical", "per_document": 1, "explain": True}
    ours = {"metadata": conditions, "id_prefix": "docs/", "source": "s"}
    assert knowledge.asked == [
        ("search", "x", {**asked, "filters": ours}),
        ("search", "x", {**asked, "filters": {"id_prefix": "docs/", "source": "s"}}),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'"x"',
        b"null",
        b"1",
        b"{",
        b'{"query": "x"} x',
        b"\xff\xfe",
        b'{"query": "\xff"}',
        b'{"query": "x", "minScore": NaN}',
        b'{"query": "x", "other": Infinity}',
        b'{"query": "x", "other": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b"query=x",
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", None])
def test_a_body_that_is_no_json_object_is_400(
    reader: TestClient, knowledge: Any, body: bytes, content_type: str | None
) -> None:
    answer = reader.post(URL, content=body, headers={} if content_type is None else {"Content-Type": content_type})
    assert answer.status_code == 400
    assert answer.json() == {"error": {"code": "invalid_input", "message": "The body is no JSON object."}}
    assert knowledge.asked == []


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"])
def test_the_content_type_does_not_matter(reader: TestClient, content_type: str) -> None:
    answer = reader.post(URL, content=b'{"query": "x"}', headers={"Content-Type": content_type})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("query", {}),
        ("query", {"query": None}),
        ("query", {"query": ""}),
        ("query", {"query": "x" * 1001}),
        ("query", {"query": 1}),
        ("query", {"query": ["x"]}),
        ("collections", {"query": "x", "collections": "a"}),
        ("collections", {"query": "x", "collections": []}),
        ("collections", {"query": "x", "collections": ["a", 1]}),
        ("collections", {"query": "x", "collections": {"a": 1}}),
        ("collections", {"query": "x", "collections": ["A B"]}),
        ("collections", {"query": "x", "collections": ["a\x00"]}),
        ("query", {"query": " \n"}),
        ("query", {"query": "\u200b"}),
        ("topK", {"query": "x", "topK": 21}),
        ("topK", {"query": "x", "topK": 0}),
        ("topK", {"query": "x", "topK": "5"}),
        ("topK", {"query": "x", "topK": True}),
        ("topK", {"query": "x", "topK": 2.5}),
        ("topK", {"query": "x", "topK": 10**400}),
        ("minScore", {"query": "x", "minScore": "0.5"}),
        ("minScore", {"query": "x", "minScore": 1.5}),
        ("minScore", {"query": "x", "minScore": 10**400}),
        ("minScore", {"query": "x", "minScore": 0.5, "mode": "lexical"}),
        ("mode", {"query": "x", "mode": "magic"}),
        ("mode", {"query": "x", "mode": 1}),
        ("filters", {"query": "x", "filters": ["team"]}),
        ("filters", {"query": "x", "filters": {"team": "support"}}),
        ("filters", {"query": "x", "filters": {"idPrefix": ""}}),
        ("filters", {"query": "x", "filters": {"metadata": []}}),
        ("filters", {"query": "x", "filters": {"metadata": {"year": {"near": 2020}}}}),
        ("filters", {"query": "x", "filters": {"metadata": {"year": {}}}}),
        ("filters", {"query": "x", "filters": {"metadata": {"kind": []}}}),
        ("filters", {"query": "x", "filters": {"metadata": {"kind": {"in": "a"}}}}),
        ("filters", {"query": "x", "filters": {"metadata": {"kind": {"deep": {"er": 1}}}}}),
        ("filters", {"query": "x", "filters": {"metadata": {str(key): 1 for key in range(21)}}}),
        ("perDocument", {"query": "x", "perDocument": 0}),
        ("perDocument", {"query": "x", "perDocument": "1"}),
        ("explain", {"query": "x", "explain": "yes"}),
    ],
)
def test_a_wrong_field_is_400_and_named(reader: TestClient, knowledge: Any, field: str, body: dict[str, Any]) -> None:
    answer = reader.post(URL, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == field
    assert knowledge.asked == []


def test_a_query_with_a_lone_surrogate_is_400(reader: TestClient) -> None:
    answer = reader.post(URL, content=b'{"query": "\\ud800"}')
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "query")


@pytest.mark.parametrize(
    ("field", "query"),
    [
        ("q", ""),
        ("q", "q="),
        ("q", "q=" + "x" * 1001),
        ("topK", "q=x&topK=21"),
        ("topK", "q=x&topK=five"),
        ("minScore", "q=x&minScore=nan"),
        ("minScore", "q=x&minScore=inf"),
        ("minScore", "q=x&minScore=-1.1"),
        ("minScore", "q=x&minScore=0.5&mode=lexical"),
        ("mode", "q=x&mode="),
        ("idPrefix", "q=x&idPrefix="),
        ("source", "q=x&source=" + "x" * 1001),
        ("perDocument", "q=x&perDocument=21"),
        ("explain", "q=x&explain=perhaps"),
        ("filters", "q=x&filters=a"),
    ],
)
def test_a_wrong_parameter_is_400_and_named(reader: TestClient, field: str, query: str) -> None:
    answer = reader.get(f"{URL}?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == field


def test_a_message_never_repeats_the_value(reader: TestClient) -> None:
    answers = [reader.post(URL, json={"query": ["secret"], "topK": "secret"}), reader.get(f"{URL}?q=x&topK=secret")]
    assert all("secret" not in answer.text for answer in answers)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (CollectionNotReadyError("a"), 409, "collection_not_ready"),
        (PreviousModelGoneError("a", "x/y"), 409, "previous_model_gone"),
        (EmbeddingUnavailableError("No answer."), 503, "embedding_unavailable"),
        (EmbeddingRejectedError("Refused."), 400, "embedding_rejected"),
        (InvalidInputError("Wrong.", field="top_k"), 400, "invalid_input"),
    ],
)
def test_what_a_search_can_answer(reader: TestClient, knowledge: Any, error: Any, status: int, code: str) -> None:
    knowledge.error = error
    answer = reader.post(URL, json={"query": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["error"]["message"] == error.message


@pytest.mark.parametrize(
    ("field", "shown"), [("top_k", "topK"), ("topK", "topK"), ("minScore", "minScore"), ("query", "query")]
)
def test_a_field_is_named_as_in_json(reader: TestClient, knowledge: Any, field: str, shown: str) -> None:
    knowledge.error = InvalidInputError("Wrong.", field=field)
    assert reader.post(URL, json={"query": "x"}).json()["error"]["field"] == shown


def test_a_body_at_the_limit_is_read_and_one_over_it_is_413(reader: TestClient, knowledge: Any) -> None:
    limit = knowledge.settings.body_limit
    fits = b'{"query": "x"}'.ljust(limit)
    assert reader.post(URL, content=fits).status_code == 200
    assert reader.post(URL, content=fits + b" ").status_code == 413


def test_a_streamed_body_is_not_read_past_the_limit(reader: TestClient, knowledge: Any) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 3 * knowledge.settings.body_limit:
            sent += 65_536
            yield b" " * 65_536

    answer = reader.post(URL, content=endless())
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    assert str(knowledge.settings.body_limit) in answer.json()["error"]["message"]


@pytest.mark.parametrize("declared", ["99999999999999999999999999", "1048577"])
def test_a_declared_length_over_the_limit_is_413_unread(reader: TestClient, declared: str) -> None:
    assert reader.post(URL, content=b"{}", headers={"Content-Length": declared}).status_code == 413
