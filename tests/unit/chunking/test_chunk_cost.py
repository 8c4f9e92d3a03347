"""Time and memory grow with the size of the text, whatever the text is."""

import random
import sys
import tracemalloc
from types import FrameType

import pytest

from knowledge_worker.chunking import chunk_text
from knowledge_worker.domain.limits import CHUNK_MAX_CHARS

SHAPES = {
    "one line": "a",
    "newlines": "\n",
    "carriage returns": "a\r",
    "hashes": "#",
    "headings": "# a\n",
    "empty headings": "#\n",
    "sections": "# a\n\nb\n\n",
    "backticks": "`",
    "fences": "```\n",
    "bars": "|",
    "tables": "|a|b|\n|-|-|\n",
    "items": "- x\n",
    "items in one line": "- ",
    "quotes in one line": "> ",
    "words": "word ",
    "sentences": "A b. ",
    "stops": ".",
    "stops and blanks": ". ",
    "stops and brackets": ".)",
    "underlines": "a\n==\n",
    "rules": "---\n",
    "comments": "<!-- x\n",
    "tags": "<pre\n",
    "line separators": "a\u2028",
    "ideographs": "漢字",
    "ideographs and stops": "漢。",
    "combining marks": "\u0301",
    "flags": "\U0001f1e9",
    "families": "\U0001f468\u200d",
    "nothing to see": "\u200b",
    "lone surrogates": "\ud800",
    "tabs": "\t",
}


def shape(name: str, chars: int) -> str:
    unit = SHAPES[name]
    return "x" + unit * (chars // len(unit)) + "\n\u0301x"


@pytest.mark.parametrize("name", SHAPES)
def test_a_quarter_of_a_mebibyte_of_anything_ends(name: str) -> None:
    # With time that grows with the square of the size, in Python or inside a pattern, this takes hours.
    chunks = chunk_text(shape(name, 1 << 18))
    assert chunks
    assert all(len(chunk.text) <= CHUNK_MAX_CHARS for chunk in chunks)


def test_deeply_nested_lists_end() -> None:
    assert chunk_text("".join(f"{' ' * (number % 2000)}- item\n" for number in range(500)))


def lines_run(text: str) -> int:
    """How many lines of Python ``chunk_text`` runs."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    former = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        chunk_text(text)
    finally:
        sys.settrace(former)
    return count


@pytest.mark.parametrize("name", SHAPES)
def test_twice_the_text_takes_at_most_twice_the_steps(name: str) -> None:
    once, twice = lines_run(shape(name, 20_000)), lines_run(shape(name, 40_000))
    assert twice <= 2.2 * once + 500


def test_twice_the_text_takes_at_most_twice_the_memory() -> None:
    rng = random.Random(1)
    text = "".join(rng.choice(["lorem ", "ipsum. ", "\n", "\n\n", "# Head\n", "- item\n"]) for _ in range(60_000))
    peaks: list[int] = []
    for part in (text[: len(text) // 2], text):
        tracemalloc.start()
        try:
            chunk_text(part)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] <= 2.3 * peaks[0]
