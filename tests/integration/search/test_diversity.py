"""Passages of one document and of others, neighbours, and the budget of characters."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from knowledge_worker.chunking.text import chunk_text
from knowledge_worker.domain.limits import RESULT_MAX_CHARS

from .conftest import Make, declared, indexed, names

STORAGES = pytest.mark.parametrize("threshold", [10_000, 50], ids=["shared table", "own table"])
MODES = pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])


def long_text(passages: int, *, about: str = "zebra stripes") -> str:
    """A document with so many passages about something, none next to another."""
    return "\n\n".join(
        f"# Part {n}\n\n{about} {n} " + "x" * 1750 + f"\n\n# Between {n}\n\nother things {n} " + "y" * 1750
        for n in range(passages)
    )


def flowing_text(sentences: int, *, about: str = "zebra stripes") -> str:
    """A document of passages that overlap."""
    return " ".join(f"Sentence number {n} tells of {about} and of much else besides." for n in range(sentences))


@MODES
@STORAGES
def test_three_passages_of_a_document_come_before_those_of_others_run_out(
    make: Make, mode: str, threshold: int
) -> None:
    documents = {"long": long_text(12), **{f"short{n}": f"one zebra among other animals {n}" for n in range(9)}}
    knowledge = indexed(make, declared("docs", documents), own_table_chunks=min(threshold, 15))
    once = {f"short{n}": 1 for n in range(9)}
    assert Counter(names(knowledge.search("zebra stripes", mode=mode, top_k=12))) == {"long": 3, **once}
    assert Counter(names(knowledge.search("zebra stripes", mode=mode, top_k=10, per_document=1))) == {"long": 1, **once}
    filled = names(knowledge.search("zebra stripes", mode=mode, top_k=16))
    assert Counter(filled) == {"long": 7, **once}
    assert filled[-4:] == ["long"] * 4, "the rest of the document comes last"


@MODES
@STORAGES
def test_a_document_of_more_passages_than_candidates_leaves_room_for_others(
    make: Make, mode: str, threshold: int
) -> None:
    documents = {"long": long_text(150), **{f"short{n}": f"a zebra and many other animals {n}" for n in range(4)}}
    knowledge = indexed(make, declared("docs", documents), own_table_chunks=threshold)
    found = Counter(names(knowledge.search("zebra stripes", mode=mode, top_k=7)))
    assert found == {"long": 3, **{f"short{n}": 1 for n in range(4)}}


@MODES
def test_neighbours_that_overlap_are_one_match(make: Make, mode: str) -> None:
    text = flowing_text(60)
    assert len(chunk_text(text)) == 5
    knowledge = indexed(make, declared("docs", {"a": text, "b": "zebra crossing"}))
    result = knowledge.search("zebra stripes", mode=mode, top_k=20, explain=True)
    joined = next(match for match in result.matches if match.document == "a")
    assert len(result.matches) == 2
    assert (joined.text, joined.index) == (text, 0)
    assert joined.explanation is not None


@pytest.mark.parametrize("top_k", [1, 5, 20])
@pytest.mark.parametrize("per_document", [1, 3, 20])
def test_a_long_document_alone_is_answered_within_the_budget(make: Make, top_k: int, per_document: int) -> None:
    text = flowing_text(300)
    knowledge = indexed(make, declared("docs", {"a": text}))
    result = knowledge.search("zebra stripes", mode="semantic", top_k=top_k, per_document=per_document)
    assert 1 <= len(result.matches) <= top_k
    assert sum(len(match.text) for match in result.matches) <= RESULT_MAX_CHARS
    assert all(match.text in text for match in result.matches)
    passages = {one.index: one for one in chunk_text(text)}
    assert all(match.text.startswith(passages[match.index].text) for match in result.matches)
    seen = sorted((text.index(match.text), len(match.text)) for match in result.matches)
    assert all(start + length <= after for (start, length), (after, _) in pairwise(seen))
    assert len(result.matches) == 1 or not result.truncated


def test_whole_passages_are_left_out_and_that_is_said(make: Make) -> None:
    documents = {f"d{n:02}": f"zebra {n} " + "y" * 1900 for n in range(20)}
    knowledge = indexed(make, declared("docs", documents))
    result = knowledge.search("zebra", top_k=20)
    assert (len(result.matches), result.truncated) == (10, True)
    assert all(match.text == documents[match.document] for match in result.matches)
    assert not knowledge.search("zebra", top_k=10).truncated


def test_so_many_matches_as_asked_for_when_neighbours_are_joined(make: Make) -> None:
    documents = {f"d{n}": flowing_text(200, about=f"zebra stripes {n}") for n in range(8)}
    knowledge = indexed(make, declared("docs", documents))
    result = knowledge.search("zebra stripes", top_k=5, per_document=20, mode="semantic")
    assert result.truncated or len(result.matches) == 5
