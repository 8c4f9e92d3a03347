from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from starlette.testclient import TestClient

from knowledge_worker.domain.collection import Collection, DocumentCounts, Generation, GenerationState
from knowledge_worker.domain.passes import PassCounts, PassOutcome, PassRecord, PassTrigger
from knowledge_worker.errors import CollectionNotIndexedError, SourceError


def generation(number: int, state: GenerationState, model: str = "local/m") -> Generation:
    return Generation(id=9, number=number, slot=0, model=model, dimensions=4, chunker="text-v1", state=state)


def test_what_is_not_there_is_absent_from_the_view(reader: TestClient) -> None:
    assert reader.get("/knowledge/collections/handbook").json() == {
        "name": "handbook",
        "kind": "declared",
        "trusted": True,
        "status": "pending",
        "model": "local/next",
        "language": "simple",
        "updatedAt": "2025-01-31T12:00:00Z",
        "running": False,
        "documents": {"total": 0, "pending": 0, "ready": 0, "failed": 0},
        "passages": 0,
    }


def test_everything_a_collection_can_show(
    reader: TestClient, knowledge: Any, a_collection: Callable[..., Collection]
) -> None:
    elsewhere = timezone(timedelta(hours=2))
    knowledge.stored["handbook"] = a_collection(
        title="Handbook",
        description="All of it",
        error="The provider does not answer.",
        failures=2,
        retry_at=datetime(2025, 1, 31, 14, 0, 5, tzinfo=elsewhere),
        synced_at=datetime(2025, 1, 31, 13, 0, 0, 120_000, tzinfo=elsewhere),
        incomplete=("a folder could not be listed",),
        notice="3 deletions wait",
        running="worker-1",
        serving=generation(3, GenerationState.SERVING),
        building=generation(4, GenerationState.BUILDING, model="local/next"),
        documents=DocumentCounts(pending=1, ready=2, failed=3),
        chunks=17,
    )
    assert reader.get("/knowledge/collections").json() == {
        "data": [
            {
                "name": "handbook",
                "kind": "declared",
                "title": "Handbook",
                "description": "All of it",
                "trusted": True,
                "status": "stale",
                "model": "local/m",
                "language": "simple",
                "generation": 3,
                "error": "The provider does not answer.",
                "failures": 2,
                "retryAt": "2025-01-31T12:00:05Z",
                "syncedAt": "2025-01-31T11:00:00.120000Z",
                "updatedAt": "2025-01-31T12:00:00Z",
                "incomplete": ["a folder could not be listed"],
                "notice": "3 deletions wait",
                "running": True,
                "documents": {"total": 6, "pending": 1, "ready": 2, "failed": 3},
                "passages": 17,
            }
        ]
    }


@pytest.mark.parametrize(
    "segment",
    ["absent", "API%20Docs", "a%2Fb", "handbook%00", "%00", "a" * 300, "%C3%A4", "handbook%0A", "%F0%9F%92%A9"],
)
def test_a_name_that_no_collection_has_is_404(writer: TestClient, knowledge: Any, segment: str) -> None:
    answers = [
        writer.get(f"/knowledge/collections/{segment}"),
        writer.get(f"/knowledge/collections/{segment}/passes"),
        writer.post(f"/knowledge/collections/{segment}/sync"),
    ]
    assert [answer.status_code for answer in answers] == [404] * 3
    assert {answer.json()["error"]["code"] for answer in answers} == {"collection_not_found"}
    assert {call[1] for call in knowledge.asked} <= {"absent"}


def test_a_name_may_be_percent_encoded_needlessly(reader: TestClient) -> None:
    assert reader.get("/knowledge/collections/%68andbook").json()["name"] == "handbook"


@pytest.mark.parametrize(
    ("query", "force", "confirm"),
    [("", False, False), ("?force=true", True, False), ("?confirmDeletes=1&force=false", False, True)],
)
def test_a_sync_is_accepted(writer: TestClient, knowledge: Any, query: str, force: bool, confirm: bool) -> None:
    answer = writer.post(f"/knowledge/collections/handbook/sync{query}")
    assert (answer.status_code, answer.json()) == (202, {"name": "handbook"})
    assert knowledge.asked == [("sync", "handbook", force, confirm)]


@pytest.mark.parametrize(
    ("query", "body", "force", "confirm"),
    [
        ("", b"{}", False, False),
        ("", b'{"force": true}', True, False),
        ("", b'{"confirmDeletes": true, "force": false}', False, True),
        ("?force=true", b'{"confirmDeletes": true}', True, True),
        ("?force=true", b"", True, False),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_the_options_of_a_sync_may_come_in_the_body(
    writer: TestClient, knowledge: Any, query: str, body: bytes, force: bool, confirm: bool, content_type: str
) -> None:
    url = f"/knowledge/collections/handbook/sync{query}"
    assert writer.post(url, content=body, headers={"Content-Type": content_type}).status_code == 202
    assert knowledge.asked == [("sync", "handbook", force, confirm)]


@pytest.mark.parametrize("body", [b" ", b"[]", b"null", b"true", b"force=true", b'{"force": true', b"\xff"])
def test_any_other_body_of_a_sync_is_400(writer: TestClient, knowledge: Any, body: bytes) -> None:
    answer = writer.post("/knowledge/collections/handbook/sync", content=body)
    assert answer.status_code == 400
    assert answer.json() == {"error": {"code": "invalid_input", "message": "The body is no JSON object."}}
    assert knowledge.asked == []


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("force", {"force": 1}),
        ("force", {"force": "true"}),
        ("force", {"force": None}),
        ("confirmDeletes", {"confirmDeletes": "yes"}),
        ("confirm_deletes", {"confirm_deletes": True}),
        ("ref", {"force": True, "ref": "main"}),
    ],
)
def test_a_wrong_or_unknown_field_of_a_sync_is_400_and_named(
    writer: TestClient, knowledge: Any, field: str, body: dict[str, Any]
) -> None:
    answer = writer.post("/knowledge/collections/handbook/sync", json=body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, field)
    assert knowledge.asked == []


def test_the_body_of_a_sync_has_the_limit_of_every_body(writer: TestClient, knowledge: Any) -> None:
    fits = b"{}".ljust(knowledge.settings.body_limit)
    assert writer.post("/knowledge/collections/handbook/sync", content=fits).status_code == 202
    assert writer.post("/knowledge/collections/handbook/sync", content=fits + b" ").status_code == 413


def test_a_sync_of_a_collection_that_nothing_indexes_is_404(writer: TestClient, knowledge: Any) -> None:
    knowledge.error = CollectionNotIndexedError("Nothing indexes it.")
    answer = writer.post("/knowledge/collections/handbook/sync")
    assert answer.status_code == 404
    assert answer.json() == {"error": {"code": "collection_not_indexed", "message": "Nothing indexes it."}}


def test_a_wrong_option_is_400_and_nothing_is_asked(writer: TestClient, knowledge: Any) -> None:
    answer = writer.post("/knowledge/collections/handbook/sync?confirmDeletes=perhaps")
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == "confirmDeletes"
    assert knowledge.asked == []


def test_passes_are_listed_with_their_counts(reader: TestClient, knowledge: Any) -> None:
    began = datetime(2025, 1, 31, 12, tzinfo=UTC)
    running = PassRecord(
        id=8,
        collection="handbook",
        trigger=PassTrigger.REQUEST,
        outcome=PassOutcome.RUNNING,
        started_at=began,
        ended_at=None,
        worker="w",
        counts=PassCounts(),
        error=None,
    )
    ended = running.model_copy(
        update={
            "id": 7,
            "outcome": PassOutcome.INCOMPLETE,
            "ended_at": began,
            "counts": PassCounts(read=3, calls=2),
            "reasons": ("no listing",),
            "reports": ("a.md: too large",),
        }
    )
    knowledge.records = [running, ended]
    data = reader.get("/knowledge/collections/handbook/passes?limit=2").json()["data"]
    assert [record["outcome"] for record in data] == ["running", "incomplete"]
    assert "endedAt" not in data[0]
    assert "reasons" not in data[0]
    assert data[1]["endedAt"] == "2025-01-31T12:00:00Z"
    assert (data[1]["counts"]["read"], data[1]["counts"]["calls"]) == (3, 2)
    assert (data[1]["reasons"], data[1]["reports"]) == (["no listing"], ["a.md: too large"])
    assert knowledge.asked == [("passes", "handbook", 2)]


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "", "1e2", "9" * 5000])
def test_a_wrong_limit_is_400(reader: TestClient, limit: str) -> None:
    answer = reader.get(f"/knowledge/collections/handbook/passes?limit={limit}")
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == "limit"


def test_a_plan_shows_what_a_pass_would_do(
    reader: TestClient, knowledge: Any, a_collection: Callable[..., Collection]
) -> None:
    knowledge.stored["handbook"] = a_collection()
    answer = reader.get("/knowledge/collections/handbook/plan").json()
    assert (answer["added"], answer["deleted"], answer["deletesHeldBack"], answer["tokens"]) == (1, 2, False, 99)
    assert "price" not in answer
    knowledge.error = SourceError("source faq: it does not answer")
    failed = reader.get("/knowledge/collections/handbook/plan")
    assert failed.status_code == 502
    assert failed.json() == {"error": {"code": "source", "message": "source faq: it does not answer"}}
