from __future__ import annotations

import pytest

from knowledge_worker.domain.permission import allows


@pytest.mark.parametrize(
    ("granted", "needed", "expected"),
    [
        (["knowledge:read"], "knowledge:read", True),
        (["knowledge:read"], "knowledge:write", False),
        (["knowledge:*"], "knowledge:write", True),
        (["*:read"], "knowledge:read", True),
        (["*:*"], "knowledge:read", True),
        (["*"], "knowledge:read", True),
        (["*"], "a:b:c", True),
        (["knowledge"], "knowledge:read", False),
        (["knowledge:read:all"], "knowledge:read", False),
        (["knowledge:*"], "knowledge:read:all", False),
        (["*:*"], "knowledge", False),
        (["knowledge:"], "knowledge:read", False),
        (["knowledge:re*"], "knowledge:read", False),
        (["Knowledge:read"], "knowledge:read", False),
        ([""], "knowledge:read", False),
        ([], "knowledge:read", False),
        (["other:read", "knowledge:write"], "knowledge:write", True),
    ],
)
def test_segments_must_match_one_by_one(granted: list[str], needed: str, expected: bool) -> None:
    assert allows(granted, needed) is expected
