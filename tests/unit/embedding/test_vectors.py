"""What every vector goes through: checks, limits by an estimate of tokens, windows."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from knowledge_worker.embedding.answers import UnreadableError, read_answer
from knowledge_worker.embedding.checking import checked_vectors
from knowledge_worker.embedding.retry_after import retry_after_ms
from knowledge_worker.embedding.tokens import estimated_tokens, over_limit, split_requests
from knowledge_worker.embedding.windows import mean_of_windows, windows
from knowledge_worker.errors import EmbeddingUnavailableError


def checked(rows: Any, *, count: int = 2, dimensions: int | None = None, indexes: list[int] | None = None) -> Any:
    return checked_vectors(rows, count=count, dimensions=dimensions, model="test/m", indexes=indexes, calls=3)


class TestCheckedVectors:
    def test_rows_become_unit_float32(self) -> None:
        vectors = checked([[3, 4], [0, 2]])
        assert vectors.dtype == np.float32
        assert vectors.tolist() == pytest.approx(np.array([[0.6, 0.8], [0.0, 1.0]]))

    @pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
    def test_huge_and_tiny_numbers_keep_their_direction(self, scale: float) -> None:
        assert checked([[3 * scale, 4 * scale]], count=1).tolist() == pytest.approx(np.array([[0.6, 0.8]]), rel=1e-6)

    def test_indexes_decide_the_order(self) -> None:
        assert checked([[1, 0], [0, 1]], indexes=[1, 0]).tolist() == [[0.0, 1.0], [1.0, 0.0]]

    @pytest.mark.parametrize(
        ("rows", "problem"),
        [
            ([[1.0, 0.0]], "1 for 2 texts"),
            ([[1.0], [1.0], [1.0]], "3 for 2 texts"),
            ([[1.0, 0.0], [1.0]], "dimensions differ"),
            ([[], []], "0 dimensions"),
            ([[1.0, 0.0], [math.nan, 0.0]], "not finite"),
            ([[1.0, 0.0], [math.inf, 0.0]], "not finite"),
            ([[1.0, 0.0], [0.0, 0.0]], "one is zero"),
            ([["a", "b"], [1.0, 0.0]], "no number"),
        ],
    )
    def test_junk_is_refused(self, rows: Any, problem: str) -> None:
        with pytest.raises(EmbeddingUnavailableError, match=problem) as caught:
            checked(rows)
        assert caught.value.calls == 3

    def test_other_dimensions_than_the_generations_are_refused(self) -> None:
        with pytest.raises(EmbeddingUnavailableError, match="2 dimensions in place of 3"):
            checked([[1.0, 0.0], [0.0, 1.0]], dimensions=3)

    @pytest.mark.parametrize("indexes", [[0, 0], [1, 2], [-1, 0]])
    def test_indexes_of_other_texts_are_refused(self, indexes: list[int]) -> None:
        with pytest.raises(EmbeddingUnavailableError, match="indexes"):
            checked([[1.0, 0.0], [0.0, 1.0]], indexes=indexes)


class TestReadAnswer:
    @pytest.mark.parametrize(
        "body",
        [
            b"", b"\xff\xfe", b"null", b"[]", b"3", b'{"data": null}', b'{"data": {}}', b'{"data": ["a"]}',
            b'{"data": [{"index": 0}]}', b'{"data": [{"embedding": null}]}', b'{"data": [{"embedding": [[1.0]]}]}',
            b'{"data": [{"embedding": ["a"]}]}', b'{"data": [{"embedding": {"a": 1}}]}',
            b'{"data": [{"index": "0", "embedding": [1]}]}', b'{"data": [{"embedding": "AAA="}]}', b"[" * 100_000,
        ],
    )  # fmt: skip
    def test_anything_else_is_unreadable(self, body: bytes) -> None:
        with pytest.raises(UnreadableError):
            read_answer(body)

    @pytest.mark.parametrize("usage", [None, 3, {}, {"prompt_tokens": "many"}, {"prompt_tokens": -1}])
    def test_usage_that_cannot_be_read_counts_nothing(self, usage: object) -> None:
        assert read_answer(json.dumps({"data": [], "usage": usage}).encode()).tokens == 0


class TestRetryAfter:
    NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("headers", "expected"),
        [
            ({}, None),
            ({"retry-after": "20"}, 20_000),
            ({"retry-after": "0.5"}, 500),
            ({"retry-after": "-3"}, 0),
            ({"retry-after": "Sun, 01 Mar 2026 12:01:30 GMT"}, 90_000),
            ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0),
            ({"retry-after": "nan"}, None),
            ({"retry-after": "later"}, None),
            ({"retry-after": "1e300"}, 7 * 24 * 3600 * 1000),
            ({"retry-after-ms": "250", "retry-after": "9"}, 250),
            ({"retry-after-ms": "x", "retry-after": "9"}, 9_000),
        ],
    )
    def test_seconds_dates_and_milliseconds(self, headers: dict[str, str], expected: int | None) -> None:
        assert retry_after_ms(headers, now=self.NOW) == expected

    def test_a_date_is_compared_with_the_providers_own_clock(self) -> None:
        headers = {"retry-after": "Sun, 01 Mar 2020 12:01:00 GMT", "date": "Sun, 01 Mar 2020 12:00:00 GMT"}
        assert retry_after_ms(headers) == 60_000


class TestTokens:
    def test_words_signs_and_other_scripts_are_counted(self) -> None:
        assert estimated_tokens("") == 2
        assert estimated_tokens("one two") == 4
        assert estimated_tokens("backup, please") == 2 + 2 + 1 + 2
        assert estimated_tokens("数据") == 2 + 3
        assert estimated_tokens("f" * 64) == 2 + 32

    def test_a_short_text_is_under_any_estimate(self) -> None:
        for text in ("x" * 49, "数" * 49, "🚀" * 49, "1" * 49):
            assert estimated_tokens(text) <= 2 * len(text) + 2
        assert over_limit("word " * 10, 1000) is None
        assert over_limit("word " * 2000, 1000) == 2002

    def test_requests_keep_order_and_both_limits(self) -> None:
        texts = [f"{number} " + "word " * 20 for number in range(9)]
        requests = split_requests(texts, max_inputs=4, max_tokens=60)
        assert [text for request in requests for text in request] == texts
        assert [len(request) for request in requests] == [2, 2, 2, 2, 1]

    def test_a_text_over_the_request_limit_goes_alone(self) -> None:
        assert split_requests(["a", "word " * 50, "b"], max_inputs=9, max_tokens=20) == [["a"], ["word " * 50], ["b"]]


class TestWindows:
    @pytest.mark.parametrize("count", [1, 9, 10, 11, 20, 21, 95])
    def test_windows_cover_every_token_once(self, count: int) -> None:
        parts = windows(list(range(count)), 10)
        assert [place for start, end in parts for place in range(start, end)] == list(range(count))
        assert all(0 < end - start <= 10 for start, end in parts)
        assert len(parts) == -(-count // 10)

    def test_a_window_ends_between_words(self) -> None:
        words = [0, 1, 2, 2, 2, 3, 4, 5]
        assert windows(words, 4) == [(0, 2), (2, 5), (5, 8)]

    def test_a_word_longer_than_a_window_is_cut(self) -> None:
        parts = windows([0] * 25, 10)
        assert [place for start, end in parts for place in range(start, end)] == list(range(25))
        assert all(end - start <= 10 for start, end in parts)

    def test_a_window_counts_by_its_length(self) -> None:
        vectors = np.array([[1, 0], [0, 1], [0, 1]], dtype=np.float32)
        assert mean_of_windows(vectors, [30, 10, 5], [0, 0, 1], count=2).tolist() == [[30, 10], [0, 5]]
