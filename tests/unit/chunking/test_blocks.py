import pytest

from knowledge_worker.chunking.blocks import BlockKind, parse_blocks


def kinds(text: str) -> list[tuple[str, str]]:
    return [(block.kind.name.lower(), text[block.start : block.end]) for block in parse_blocks(text)]


def headings(text: str) -> list[tuple[int, str]]:
    return [(block.level, block.title) for block in parse_blocks(text) if block.kind is BlockKind.HEADING]


def test_paragraphs_are_separated_by_blank_lines() -> None:
    assert kinds("one\ntwo\n\n \t\nthree\n") == [("paragraph", "one\ntwo"), ("paragraph", "three")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_is_one_line_end(end: str) -> None:
    text = f"# A{end}one{end}two{end}{end}three"
    assert kinds(text) == [("heading", "# A"), ("paragraph", f"one{end}two"), ("paragraph", "three")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# One", (1, "One")),
        ("###### Six ##", (6, "Six")),
        ("   ## Indented", (2, "Indented")),
        ("## C#", (2, "C#")),
        ("#\tTab", (1, "Tab")),
        ("#", (1, "")),
        ("### ###", (3, "")),
    ],
)
def test_atx_headings(line: str, expected: tuple[int, str]) -> None:
    assert headings(f"{line}\ntext") == [expected]


@pytest.mark.parametrize("line", ["####### seven", "#hashtag", "    # indented code", "\\# escaped", "> # quoted"])
def test_lines_that_are_no_headings(line: str) -> None:
    assert headings(line) == []


def test_setext_headings() -> None:
    assert headings("Title\n=====\n\ntext\n\nTwo\nlines\n---\ntext") == [(1, "Title"), (2, "Two lines")]


def test_the_overlined_title_of_restructuredtext() -> None:
    assert headings("=====\nTitle\n=====\n\ntext") == [(1, "Title")]


def test_a_thematic_break_is_no_heading() -> None:
    assert headings("text\n\n---\n\nmore\n\n***\n") == []


def test_front_matter_is_no_heading() -> None:
    text = "---\ntitle: A\ntags: b\n---\n# Real\ntext"
    assert kinds(text)[0] == ("code", "---\ntitle: A\ntags: b\n---")
    assert headings(text) == [(1, "Real")]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("```", "```"), ("```python", "`````"), ("~~~", "~~~"), ("~~~~~ sh", "~~~~~"), ("  ```", " ```")],
)
def test_headings_inside_a_fence_are_none(opening: str, closing: str) -> None:
    text = f"before\n{opening}\n# comment\n\n# more\n{closing}\n# Real\nafter"
    assert headings(text) == [(1, "Real")]
    assert ("code", f"{opening}\n# comment\n\n# more\n{closing}") in kinds(text)


def test_a_fence_is_closed_by_its_own_mark_at_its_own_length_only() -> None:
    text = "````\n```\n~~~~\n```` not this\n# comment\n````\n# Real"
    assert headings(text) == [(1, "Real")]


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert kinds("a\n\n```\n# b\n\nc\n") == [("paragraph", "a"), ("code", "```\n# b\n\nc")]


def test_inline_code_with_three_backticks_is_no_fence() -> None:
    assert headings("```a``` b\n\n# Real") == [(1, "Real")]


def test_raw_html_ends_at_its_closing_mark() -> None:
    text = "<!-- one\n\n# two\n-->\n# Real\n\n<pre>\n# x\n</pre>\n<prefix>\n# Also"
    assert headings(text) == [(1, "Real"), (1, "Also")]


def test_a_table_is_one_block() -> None:
    table = "| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |"
    assert kinds(f"Text\n\n{table}\nafter\n\n{table}") == [
        ("paragraph", "Text"),
        ("table", table),
        ("paragraph", "after"),
        ("table", table),
    ]


def test_a_table_without_outer_bars() -> None:
    assert kinds("a | b\n--- | ---\n1 | 2")[0][0] == "table"


def test_a_list_keeps_nested_items_continuations_and_fences() -> None:
    text = "- one\n  lazy\n  - nested\n\n  paragraph\n\n  ```\n  # comment\n  ```\n- two\n\n1. three"
    assert kinds(f"{text}\n\nafter") == [("list", text), ("paragraph", "after")]
    assert headings(text) == []


def test_a_list_ends_at_a_heading() -> None:
    assert kinds("* one\n# Two") == [("list", "* one"), ("heading", "# Two")]


def test_a_year_at_the_start_of_a_line_is_no_list() -> None:
    assert kinds("It was in\n1986. Then") == [("paragraph", "It was in\n1986. Then")]


def test_an_unclosed_fence_in_a_list_ends_with_the_item() -> None:
    assert headings("- a\n\n  ```\n  # comment\n\n# Real") == [(1, "Real")]
