"""Titles: the first level-1 heading outside fenced code."""

from __future__ import annotations

import pytest

from knowledge_worker.sources.messages import one_line
from knowledge_worker.sources.textfile import TITLE_MAX_CHARS, first_heading


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# One\n# Two", "One"),
        ("intro\n\n## Second\n\n# First", "First"),
        ("   # Indented", "Indented"),
        ("    # code", None),
        ("#NoSpace\n#\tTab", "Tab"),
        ("#\n# \n# ##\n# Named", "Named"),
        ("# Closed ##  ", "Closed"),
        ("# C#", "C#"),
        ("# a # b", "a # b"),
        ("\\# no", None),
        ("Setext\n======", None),
        ("```\n# in fence\n```\n# After", "After"),
        ("```sh\n# in fence\n~~~\n# still\n```\n# After", "After"),
        ("~~~~ md ```\n# in\n~~~\n# in\n~~~~~  \n# After", "After"),
        ("````\n```\n# in\n```\n````\n# After", "After"),
        ("```\n# in\n``` not closed by this\n# in", None),
        ("``` a`b\n# Not a fence", "Not a fence"),
        ("``\n# Two are no fence", "Two are no fence"),
        ("  ```\n# in\n   ```\n# After", "After"),
        ("```\n# never closed", None),
        ("text\r\n# Windows\r\n", "Windows"),
        ("text\r# Old Mac\r", "Old Mac"),
        ("text\u2028# no line end", None),
        ("", None),
    ],
)
def test_the_title_is_the_first_level_one_heading_outside_fences(text: str, title: str | None) -> None:
    assert first_heading(text) == title


def test_a_heading_as_long_as_a_file_becomes_a_short_title() -> None:
    title = first_heading("# " + "x" * 1_000_000)

    assert title is not None
    assert len(title) == TITLE_MAX_CHARS


def test_foreign_messages_become_one_line_without_credentials() -> None:
    text = "\n no\tanswer from https://me:p@ss/x@host.example/a?api_key=1 and ssh://u:w@h:22/x \n[SQL: secret]"

    assert "secret" not in one_line(text)
    assert "api_key" not in one_line(text)
    assert one_line("ask https://me:p@ss@host.example/a") == "ask https://host.example/a"
    assert one_line("\x1b[31mred\x00\ud800") == "[31mred \ufffd"
    assert len(one_line("x" * 1000)) == 300


MEBIBYTE = 1_048_576


@pytest.mark.parametrize(
    "heading", ["a" + " " * MEBIBYTE + "x", " #" * MEBIBYTE + "x", "#" * MEBIBYTE + "x", " \t" * MEBIBYTE]
)
def test_a_heading_made_to_be_slow_ends(heading: str) -> None:
    """With a pattern that looks anew from every blank, each of these takes hours."""
    title = heading.strip()
    assert first_heading(f"# {heading}\n# Next") == (f"{title[: TITLE_MAX_CHARS - 1]}…" if title else "Next")


@pytest.mark.parametrize("piece", ["a", "://", "a://", "a://b?", "a://b:c@", "?", "@"])
def test_a_message_made_to_be_slow_ends(piece: str) -> None:
    assert len(one_line(piece * MEBIBYTE)) <= 300
    assert len(one_line("http://" + piece * MEBIBYTE + " x")) <= 300
