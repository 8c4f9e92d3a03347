"""Texts as the parser of words should see them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knowledge_worker.chunking.words import is_lone, searchable, searchable_query, word_count


def test_spaced_scripts_are_lower_case_and_otherwise_as_they_are() -> None:
    assert searchable("Größe ÉTÉ Привет, World!") == "größe été привет, world!"


def test_unspaced_scripts_become_pairs_and_the_last_character() -> None:
    assert searchable("東京都").split() == ["東京", "京都", "都"]
    assert searchable("猫").split() == ["猫"]
    assert searchable("カタカナ と 漢字").split() == ["カタ", "タカ", "カナ", "ナ", "と", "漢字", "字"]
    assert searchable("ภาษาไทย").split()[:2] == ["ภา", "าษ"]
    assert searchable("Go言語x").split() == ["go", "言語", "語", "x"]


def test_a_query_has_pairs_or_one_character_alone() -> None:
    assert searchable_query("東京都 猫 Go").split() == ["東京", "京都", "猫", "go"]
    assert searchable_query("ASCII Only") == "ascii only"
    assert [is_lone(word) for word in ("猫", "の", "ก", "東京", "a", "é", "", "1")] == [True] * 3 + [False] * 5


@given(st.text(alphabet="東京都に行く猫カタไทย", min_size=1, max_size=30), st.data())
def test_a_part_of_a_run_is_found_by_its_words(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    words = searchable(text).split()
    for asked in searchable_query(text[start:end]).split():
        assert any(word.startswith(asked) for word in words) if is_lone(asked) else asked in words


def test_words_are_counted_after_that() -> None:
    assert word_count(searchable("Two words. 東京都!")) == 5


@given(st.text(max_size=300))
def test_any_text_grows_at_most_by_its_pairs(text: str) -> None:
    shown = searchable(text)
    assert len(shown) <= 4 * len(text.lower()) + 2
    if text.isascii():
        assert shown == text.lower()
