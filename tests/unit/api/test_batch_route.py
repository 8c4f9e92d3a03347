"""Many documents in one request: each line by itself, whatever the others are."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from starlette.testclient import TestClient

from knowledge_worker._bundled import load_api
from knowledge_worker.errors import CollectionNotFoundError, CollectionNotManagedError, ServiceUnavailableError

load_api()
from knowledge_worker_api import bulk, ndjson  # noqa: E402

URL = "/knowledge/collections/notes/documents/batch"


def lines(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.decode().splitlines()]


def put(client: TestClient, *documents: bytes | dict[str, Any], ends: bytes = b"\n") -> list[dict[str, Any]]:
    body = b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + ends for one in documents)
    answer = client.post(URL, content=body)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert int(answer.headers["content-length"]) == len(answer.content)
    return lines(answer.content)


def test_each_line_has_its_result_and_the_last_one_sums_up(writer: TestClient, knowledge: Any) -> None:
    answered = put(writer, {"id": "a", "content": "x"}, {"id": "", "content": "x"}, {"id": "b", "content": "y"})
    assert [(one["line"], one["code"]) for one in answered[:3]] == [(1, 202), (2, 400), (3, 202)]
    assert answered[1]["error"]["field"] == "id"
    assert answered[3] == {"documents": 3, "accepted": 2, "unchanged": 0, "failed": 1}
    (call,) = [call for call in knowledge.asked if call[2]]
    assert call[1] == "notes"


def test_a_request_without_a_body_puts_nothing(writer: TestClient) -> None:
    answer = writer.post(URL)
    assert (answer.status_code, lines(answer.content)) == (
        200,
        [{"documents": 0, "accepted": 0, "unchanged": 0, "failed": 0}],
    )
    operation = writer.get("/openapi.json").json()["paths"]["/knowledge/collections/{name}/documents/batch"]["post"]
    assert operation["requestBody"]["required"] is False


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b"{", None),
        (b"[]", None),
        (b'"x"', None),
        (b"null", None),
        (b"\xff\xfe", None),
        (b'{"id": "a", "content": "x"} {"id": "b"}', None),
        (b'{"id": "a", "content": NaN}', None),
        (b'{"id": "a", "content": ' + b"[" * 100_000, None),
        (b'{"id": "a", "content": ' + b"9" * 5000 + b"}", None),
        (b'{"id": "a", "content": "x", "trusted": true}', "trusted"),
        (b'{"id": "a", "content": "x", "id": "b"}', "id"),
        (b'{"id": "a", "content": "x", "metadata": {"k": 1, "k": 2}}', "k"),
        (b'{"content": "x"}', "id"),
        (b'{"id": "a"}', "content"),
        (b'{"id": "a", "content": ""}', "content"),
        (b'{"id": 1, "content": "x"}', "id"),
        (b'{"id": "a\\u0000", "content": "x"}', "id"),
        (b'{"id": "' + b"a" * 256 + b'", "content": "x"}', "id"),
        (b'{"id": "a", "content": "x", "metadata": []}', "metadata"),
        (b'{"id": "a", "content": "x", "title": 7}', "title"),
    ],
)
def test_a_wrong_line_is_refused_alone(writer: TestClient, line: bytes, field: str | None) -> None:
    first, second, summary = put(writer, line, {"id": "good", "content": "x"})
    assert (first["line"], first["code"], first["error"].get("field")) == (1, 400, field)
    assert (second["line"], second["code"], second["id"]) == (2, 202, "good")
    assert (summary["accepted"], summary["failed"]) == (1, 1)


def test_a_line_over_the_bodys_limit_is_refused_alone_and_named(writer: TestClient, knowledge: Any) -> None:
    limit = knowledge.settings.body_limit
    first, second, _ = put(writer, b'{"id": "a", "content": "' + b"x" * limit + b'"}', {"id": "b", "content": "x"})
    assert (first["code"], first["error"]["code"]) == (413, "too_large")
    assert "KNOWLEDGE_BODY_LIMIT" in first["error"]["message"]
    assert second["code"] == 202


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\n\n \n"])
def test_line_ends_and_blank_lines(writer: TestClient, ends: bytes) -> None:
    answered = put(writer, {"id": "a", "content": "x"}, {"id": "b", "content": "x"}, ends=ends)
    assert [one["line"] for one in answered[:-1]] == [1, 1 + ends.count(b"\n")]
    assert answered[-1]["documents"] == 2


def test_the_last_line_needs_no_end_and_a_body_without_lines_is_empty(writer: TestClient) -> None:
    assert lines(writer.post(URL, content=b'{"id": "a", "content": "x"}').content)[-1]["documents"] == 1
    for body in (b"", b"\n", b" \r\n\t\n"):
        assert lines(writer.post(URL, content=body).content) == [
            {"documents": 0, "accepted": 0, "unchanged": 0, "failed": 0}
        ]


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_lines_that_come_in_pieces_of_any_size(writer: TestClient, knowledge: Any, size: int) -> None:
    body = b"".join(b'{"id": "d%d", "content": "\xc3\xa4 %d"}\n' % (n, n) for n in range(30))
    sent = (body[start : start + size] for start in range(0, len(body), size))
    assert lines(writer.post(URL, content=sent).content)[-1]["accepted"] == 30
    stored = [one for call in knowledge.asked for one in call[2]]
    assert stored == [{"id": f"d{n}", "content": f"ä {n}"} for n in range(30)]


@pytest.mark.parametrize(
    ("error", "status"), [(CollectionNotFoundError("notes"), 404), (CollectionNotManagedError("notes"), 409)]
)
def test_a_collection_that_takes_none_is_said_before_anything_is_read(
    writer: TestClient, knowledge: Any, error: Exception, status: int
) -> None:
    knowledge.error = error
    assert writer.post(URL, content=b"{}\n").status_code == status
    assert len(knowledge.asked) == 1


def test_a_database_that_goes_away_in_between_is_said_of_each_line(
    writer: TestClient, knowledge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = knowledge.put_documents

    def second_group_fails(collection: str, documents: Any) -> Any:
        if len(knowledge.asked) == 2:
            knowledge.error = ServiceUnavailableError("PostgreSQL does not answer.")
        return whole(collection, documents)

    monkeypatch.setattr(knowledge, "put_documents", second_group_fails)
    answered = put(writer, *({"id": f"d{n}", "content": "x"} for n in range(250)))
    assert [one["code"] for one in answered[:-1]] == [202] * 200 + [503] * 50
    assert answered[-1]["failed"] == 50


def test_writing_needs_the_permission(reader: TestClient, client: TestClient, knowledge: Any) -> None:
    assert reader.post(URL, content=b"{}").status_code == 403
    assert client.post(URL, content=b"{}").status_code == 401
    assert knowledge.asked == []


def test_with_other_methods_it_is_the_document_of_that_name(writer: TestClient, knowledge: Any) -> None:
    assert writer.get(URL).json()["id"] == "batch"
    assert writer.delete(URL).status_code == 204
    assert writer.put(URL, json={"content": "x"}).status_code == 202


def test_memory_does_not_grow_with_the_number_of_lines(knowledge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowledge, "_note", lambda *_call: None)  # it remembers everything

    def peak(count: int) -> int:
        write = bulk.BulkWrite(knowledge, "notes", line_max_bytes=1000)
        cutter = ndjson.LineCutter(1000)
        held: list[Any] = []
        tracemalloc.start()
        for number in range(count):
            held += cutter.feed(b'{"id": "d%d", "content": "%s"}\n' % (number, b"x" * 500))
            if len(held) == bulk.GROUP_LINES:
                write.store(held)
                held.clear()
        write.finish()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sum(len(part) for part in write.answer()) > 50 * count
        return most

    peak(1000)
    small, large = peak(20_000), peak(80_000)
    # The answer alone would grow by some megabytes; from the first one on it is in a file.
    assert large < 1.2 * small
