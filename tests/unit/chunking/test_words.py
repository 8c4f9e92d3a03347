"""Texts as the parser of words should see them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knowledge_worker.chunking.words import searchable, word_count


def test_spaced_scripts_are_lower_case_and_otherwise_as_they_are() -> None:
    assert searchable("Größe ÉTÉ Привет, World!") == "größe été привет, world!"


def test_unspaced_scripts_become_pairs() -> None:
    assert searchable("東京都").split() == ["東京", "京都"]
    assert searchable("猫").split() == ["猫"]
    assert searchable("カタカナ と 漢字").split() == ["カタ", "タカ", "カナ", "と", "漢字"]
    assert searchable("ภาษาไทย").split()[:2] == ["ภา", "าษ"]
    assert searchable("Go言語x").split() == ["go", "言語", "x"]


def test_a_part_of_a_run_is_made_of_its_pairs() -> None:
    assert set(searchable("京都").split()) <= set(searchable("東京都に行く").split())


def test_words_are_counted_after_that() -> None:
    assert word_count(searchable("Two words. 東京都!")) == 4


@given(st.text(max_size=300))
def test_any_text_grows_at_most_by_its_pairs(text: str) -> None:
    shown = searchable(text)
    assert len(shown) <= 4 * len(text.lower()) + 2
    if text.isascii():
        assert shown == text.lower()
