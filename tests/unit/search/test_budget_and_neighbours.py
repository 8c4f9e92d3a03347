"""How much is handed over, and passages that overlap."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from knowledge_worker.search.budget import within_budget
from knowledge_worker.search.neighbours import with_neighbour
from knowledge_worker.store.protocol import Hit

from .conftest import PASSAGE, passage

TEXT = "".join(chr(0x100 + n) for n in range(400))
"""No character twice, so that a slice says where it is from."""


@st.composite
def hits(draw: st.DrawFn) -> list[Hit]:
    """Passages of two documents, those beyond enough last."""
    spans = draw(st.lists(st.tuples(st.integers(0, 399), st.integers(1, 60), st.sampled_from("ab")), max_size=25))
    found = [passage(TEXT, start, min(400, start + length), document=one) for start, length, one in spans]
    behind = draw(st.integers(0, len(found)))
    return [*found[:behind], *(replace(one, beyond=True) for one in found[behind:])]


def covered(found: list[Hit]) -> set[tuple[str, int]]:
    return {(one.document, place) for one in found for place in range(*one.span)}


@given(hits())
def test_joining_loses_and_repeats_no_text(found: list[Hit]) -> None:
    kept: list[Hit] = []
    for hit in found:
        kept = with_neighbour(kept, hit)
    assert covered(kept) == covered(found)
    assert sum(len(one.text) for one in kept) == len(covered(kept))
    for one in kept:
        assert one.text == TEXT[slice(*one.span)]
        assert one.lines == (one.span[0] + 1, one.span[1])


@given(hits(), st.integers(1, 20), st.integers(60, 500))
def test_whole_passages_within_the_budget_best_first(found: list[Hit], top_k: int, max_chars: int) -> None:
    kept, truncated = within_budget(found, top_k=top_k, max_chars=max_chars)
    assert len(kept) <= top_k
    assert sum(len(one.text) for one in kept) <= max_chars
    assert all(one.text == TEXT[slice(*one.span)] for one in kept)
    assert bool(kept) == bool(found)
    handed = covered(kept)
    inside = [covered([one]) <= handed for one in found]
    taken = inside.index(False) if False in inside else len(inside)
    assert handed == covered(found[:taken]), "the best ones, and nothing but these"
    left_for_length = taken < len(found) and len(kept) < top_k and not (found[taken].beyond and taken >= top_k)
    assert truncated == left_for_length


def test_a_joined_match_has_the_place_and_scores_of_its_best_part() -> None:
    first = passage(TEXT, 50, 100, score=0.9, cosine=0.8, semantic_place=1, section=("B",))
    other = passage(TEXT, 200, 210, score=0.8)
    before = passage(TEXT, 10, 60, score=0.7, cosine=0.1, semantic_place=3, section=("A",))
    kept, _ = within_budget([first, other, before], top_k=5, max_chars=1000)
    assert [one.span for one in kept] == [(10, 100), (200, 210)]
    assert (kept[0].score, kept[0].cosine, kept[0].semantic_place) == (0.9, 0.8, 1)
    assert (kept[0].index, kept[0].section, kept[0].lines) == (10, ("A",), (11, 100))


def test_a_passage_between_two_joins_all_three() -> None:
    parts = [passage(TEXT, 80, 120), passage(TEXT, 10, 50), passage(TEXT, 40, 90)]
    kept, _ = within_budget(parts, top_k=5, max_chars=1000)
    assert [one.text for one in kept] == [TEXT[10:120]]


def test_what_touches_or_is_of_another_document_or_collection_stays_apart() -> None:
    parts = [
        passage(TEXT, 0, 50),
        passage(TEXT, 50, 90),
        passage(TEXT, 20, 60, document="b"),
        passage(TEXT, 20, 60, collection="other"),
    ]
    kept, _ = within_budget(parts, top_k=5, max_chars=1000)
    assert kept == parts


def test_passages_beyond_enough_fill_up_to_as_many_as_are_wanted_and_no_further() -> None:
    parts = [passage(TEXT, 30 * n, 30 * n + 40, beyond=n >= 2) for n in range(10)]
    kept, truncated = within_budget(parts, top_k=5, max_chars=1000)
    assert ([one.span for one in kept], truncated) == ([(0, 160)], False)


def test_nothing_found_is_nothing_left_out() -> None:
    assert within_budget([], top_k=5, max_chars=10) == ([], False)
    assert within_budget([replace(PASSAGE, text="x" * 11)], top_k=5, max_chars=10) == ([], True)
