"""``knowledge_read``: sections, lines, passages, budgets, and going on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_worker import chunk_text
from knowledge_worker.domain.document import DocumentStatus
from knowledge_worker.tools import KnowledgeTools
from knowledge_worker.tools.sections import find_sections, sections_of
from knowledge_worker.tools.window import Lines, around, forward

if TYPE_CHECKING:
    from .conftest import FakeKnowledge

BOOK = """# Handbook

Welcome.

## Money

Rules about money.

### Refunds

Refunds take 14 days.

```
# no heading
```

### Prices

Prices change.

## People

Rules about people.

### Refunds

Not those.
"""


@pytest.fixture
def read(knowledge: FakeKnowledge, make_tools: Callable[..., KnowledgeTools]) -> Callable[..., dict[str, Any]]:
    knowledge.put("handbook", "book.md", BOOK, title="Handbook", source="https://example.com/book")
    knowledge.put("handbook", "long.md", "".join(f"## Part {n}\n\n{f'word{n} ' * 40}\n\n" for n in range(60)))
    knowledge.put("handbook", "line.txt", "word " * 5000)
    knowledge.put("handbook", "empty.md", "")
    tools = make_tools("handbook")

    def call(document: str = "book.md", **more: Any) -> dict[str, Any]:
        return tools.read.call({"collection": "handbook", "document": document, **more}).data

    return call


def test_a_short_document_is_read_whole(read: Callable[..., dict[str, Any]]) -> None:
    assert read() == {
        "collection": "handbook",
        "document": "book.md",
        "title": "Handbook",
        "source": "https://example.com/book",
        "section": ["Handbook"],
        "lines": [1, 27],
        "trusted": True,
        "text": BOOK.rstrip("\n"),
        "truncated": False,
        "tainted": False,
    }


def test_a_section_is_read_by_the_headings_of_a_match(read: Callable[..., dict[str, Any]]) -> None:
    found = read(section=["Handbook", "Money", "Refunds"])
    assert found["text"] == "### Refunds\n\nRefunds take 14 days.\n\n```\n# no heading\n```"
    assert (found["section"], found["lines"]) == (["Handbook", "Money", "Refunds"], [9, 16])
    assert found["before"]["section"] == ["Handbook", "Money"]
    assert found["after"]["section"] == ["Handbook", "Money", "Prices"]
    whole = read(section=["Handbook", "Money"])
    assert "Prices change." in whole["text"]
    assert "Rules about people." not in whole["text"]


def test_the_last_headings_are_enough_and_a_second_section_of_the_name_is_told(
    read: Callable[..., dict[str, Any]],
) -> None:
    assert read(section=["people", " refunds"])["text"] == "### Refunds\n\nNot those."
    assert read(section="Prices")["text"].startswith("### Prices")
    first = read(section=["Refunds"])
    assert "14 days" in first["text"]
    assert first["sameSection"] == [[25, 27]]


def test_an_unknown_section_names_those_there_are(read: Callable[..., dict[str, Any]]) -> None:
    message = read(section=["Nope"])["error"]["message"]
    assert "['Handbook', 'Money', 'Refunds']" in message
    assert "it has no headings" in read("line.txt", section=["Nope"])["error"]["message"]


def test_lines_are_those_of_a_match(read: Callable[..., dict[str, Any]]) -> None:
    assert read(lines=[11, 11])["text"] == "Refunds take 14 days."
    assert read(lines=[11])["text"] == "Refunds take 14 days."
    assert read(lines=[26, 900])["lines"][1] == 27
    for chunk in chunk_text(BOOK):
        found = read(lines=[chunk.line_start, chunk.line_end])
        assert chunk.text.strip() in found["text"]


def test_around_shows_the_passage_and_what_stands_beside_it(read: Callable[..., dict[str, Any]]) -> None:
    content = "".join(f"## Part {n}\n\n{f'word{n} ' * 40}\n\n" for n in range(60))
    for chunk in chunk_text(content):
        found = read("long.md", around=chunk.index, maxChars=3000)
        assert chunk.text in found["text"] + "\n"
        assert len(found["text"]) <= 3000
        assert found["lines"][0] <= chunk.line_start
        assert found["lines"][1] >= chunk.line_end
    line = read("long.md", line=43, maxChars=500)
    assert line["lines"][0] <= 43 <= line["lines"][1]
    assert len(line["text"]) <= 500


def test_a_document_over_the_budget_is_read_piece_by_piece_to_its_end(
    read: Callable[..., dict[str, Any]], knowledge: FakeKnowledge
) -> None:
    for document in ("long.md", "line.txt"):
        found = read(document, maxChars=1000)
        pieces = [found["text"]]
        assert found["truncated"]
        while "after" in found:
            offset = found["after"]["offset"]
            found = read(document, maxChars=1000, offset=offset)
            assert found["before"]["chars"] == offset
            pieces.append(found["text"])
        whole = knowledge.documents["handbook", document].content or ""
        assert "".join("".join(pieces).split()) == "".join(whole.split())
        assert max(map(len, pieces)) <= 1000 < sum(map(len, pieces))


def test_the_first_piece_of_a_long_document_names_its_headings(read: Callable[..., dict[str, Any]]) -> None:
    found = read("long.md", maxChars=1000)
    assert found["outline"][1] == {"section": ["Part 1"], "lines": [5, 8]}
    assert len(found["outline"]) == 40
    assert len(read("long.md")["text"]) <= 8000
    assert 8000 < len(read("long.md", maxChars=20000)["text"]) <= 20000


def test_an_empty_document_is_empty(read: Callable[..., dict[str, Any]]) -> None:
    found = read("empty.md")
    assert (found["text"], found["lines"], found["truncated"]) == ("", [1, 1], False)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"maxChars": 20_001}, "maxChars is a whole number from 200 to 20000"),
        ({"maxChars": 10}, "maxChars is a whole number from 200 to 20000"),
        ({"lines": [0, 3]}, "first and the last line"),
        ({"lines": [9, 3]}, "first and the last line"),
        ({"lines": [1, 2, 3]}, "first and the last line"),
        ({"lines": ["a"]}, "a list of whole numbers"),
        ({"lines": "1-3"}, "lines is a list"),
        ({"lines": [900, 901]}, "The document has 27 lines."),
        ({"line": 900}, "The document has 27 lines."),
        ({"line": 0}, "at least 1"),
        ({"around": 99}, "go from 0 to 0"),
        ({"around": -1}, "at least 0"),
        ({"offset": 99_999}, "ends at offset"),
        ({"section": [1]}, "a list of texts"),
        ({"section": ["Money"], "lines": [1, 2]}, "Give one of section, lines, around, line, offset"),
        ({"page": 2}, 'There is no argument "page"'),
    ],
)
def test_a_reading_that_breaks_a_rule_says_what_to_do(
    read: Callable[..., dict[str, Any]], given_: dict[str, Any], message: str
) -> None:
    assert message in read(**given_)["error"]["message"]


def test_a_document_that_changed_since_it_was_indexed_says_so(
    read: Callable[..., dict[str, Any]], knowledge: FakeKnowledge
) -> None:
    knowledge.put("handbook", "new.md", "new words", status=DocumentStatus.PENDING)
    assert "changed after it was indexed" in read("new.md")["changed"]


def test_every_section_of_a_chunk_is_one_that_can_be_read() -> None:
    text = BOOK + "\nSetext\n======\n\nwords\n\n" + "#" * 3 + " Tail ###\n\n" + "word " * 900
    sections = sections_of(text)
    for chunk in chunk_text(text):
        (first, *_) = find_sections(sections, chunk.section)
        assert first.path == chunk.section
        assert first.start <= chunk.end


PIECES = st.lists(
    st.sampled_from(["word ", "\n", "\r\n", "\r", "é", "e\u0301", "👩\u200d👩", "\t", "x" * 60, "# h\n"]), max_size=80
)


@settings(max_examples=200, deadline=None)
@given(PIECES, st.integers(1, 300), st.data())
def test_windows_stay_within_the_budget_and_always_move_on(pieces: list[str], budget: int, data: st.DataObject) -> None:
    text = "".join(pieces)
    lines = Lines(text)
    seen, offset = "", 0
    while offset < len(text):
        window = forward(text, lines, offset, len(text), max_chars=budget)
        assert window.start == offset < window.end <= min(len(text), offset + budget)
        seen += text[window.start : window.end]
        offset = window.end
    assert seen == text
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    window = around(text, lines, start, end, max_chars=budget)
    assert window.end - window.start <= budget
    assert window.start <= start
    if end - start <= budget:
        assert window.end >= end


@settings(max_examples=100, deadline=None)
@given(PIECES)
def test_lines_are_counted_as_passages_count_them(pieces: list[str]) -> None:
    text = "".join(pieces)
    lines = Lines(text)
    for chunk in chunk_text(text):
        assert (lines.number(chunk.start), lines.number(chunk.end - 1)) == (chunk.line_start, chunk.line_end)
