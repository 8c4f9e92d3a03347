"""Words for times and durations, excerpts, and text that is safe to print."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_worker.cli.output import ago, safe_line, safe_text, table, took, wrapped
from knowledge_worker.cli.search import excerpt

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s ago"),
        (59, "59 s ago"),
        (61, "1 min ago"),
        (7_199, "119 min ago"),
        (7_200, "2 h ago"),
        (172_800, "2 d ago"),
        (-30, "in 30 s"),
    ],
)
def test_ago(seconds: int, said: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), now=NOW) == said


def test_no_moment_is_a_dash() -> None:
    assert ago(None) == "-"


def test_took() -> None:
    assert took(NOW, NOW + timedelta(milliseconds=840)) == "840 ms"
    assert took(NOW, NOW + timedelta(seconds=3.24)) == "3.2 s"
    assert took(NOW, NOW + timedelta(minutes=5)) == "5 min"
    assert took(NOW, None) == ""


@settings(deadline=None, max_examples=50)
@given(st.text())
def test_safe_text_keeps_letters_and_loses_what_acts(text: str) -> None:
    shown = safe_text(text)
    assert not any((ord(each) < 32 and each not in "\t\n") or 0x7F <= ord(each) < 0xA0 for each in shown)
    assert len(safe_line(text).splitlines()) <= 1


def test_tables_have_one_line_a_row_whatever_is_in_the_cells() -> None:
    lines = table(("NAME", "ERROR"), [("a", "one\ntwo\x1b[2J"), ("[bold]b", "x" * 300)]).splitlines()
    assert len(lines) == 3
    assert "one two" in lines[1]
    assert lines[2].startswith("[bold]b")


def test_lines_are_wrapped_by_columns() -> None:
    assert wrapped("aaa bbb ccc", width=7) == ["aaa bbb", "ccc"]
    assert wrapped("日本 日本", width=7) == ["日本", "日本"]
    assert wrapped("", width=7) == []


def test_an_excerpt_is_the_part_that_has_the_words_asked_for() -> None:
    text = "filler " * 100 + "the secret recipe for pancakes is here " + "filler " * 100
    part = excerpt(text, "pancakes recipe", max_chars=80)
    assert "recipe for pancakes" in part
    assert part.startswith("… ")
    assert part.endswith(" …")


def test_a_short_passage_is_its_own_excerpt() -> None:
    assert excerpt("All of it.", "nothing in common") == "All of it."


@settings(deadline=None, max_examples=50)
@given(st.text(), st.text(max_size=30))
def test_an_excerpt_is_short_and_on_one_line(text: str, query: str) -> None:
    part = excerpt(text, query, max_chars=50)
    assert len(part) <= 55
    assert len(part.splitlines()) <= 1
