import itertools
import random

import pytest
import regex

from knowledge_worker.chunking import CHUNKER_VERSION, chunk_text
from knowledge_worker.domain.chunk import Chunk
from knowledge_worker.domain.limits import CHUNK_MAX_CHARS


def sentences(count: int, seed: int = 0) -> str:
    rng = random.Random(seed)
    words = ["river", "stone", "light", "the", "of", "under", "amber", "garden", "window", "slowly", "carries"]
    return " ".join(" ".join(rng.choices(words, k=9)).capitalize() + f" {rng.randrange(1000)}." for _ in range(count))


def paragraphs(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [sentences(rng.randrange(1, 10), seed * 1000 + number) for number in range(count)]


def own_starts(chunks: list[Chunk]) -> list[int]:
    """Where each chunk's own part begins, give or take white space: the end of the chunk before."""
    return [chunks[0].start, *(chunk.end for chunk in chunks[:-1])]


def own_texts(text: str) -> list[str]:
    chunks = chunk_text(text)
    return [text[start : chunk.end].strip() for start, chunk in zip(own_starts(chunks), chunks, strict=True)]


def test_the_version_is_part_of_a_generation() -> None:
    assert CHUNKER_VERSION == "text-v1"


@pytest.mark.parametrize("text", ["", " ", "\n\r\n\t", "\u200b\ufeff", "\u200b" * 5000, " \n" * 5000])
def test_blank_text_has_no_chunks(text: str) -> None:
    assert chunk_text(text) == []


def test_a_short_text_is_one_chunk() -> None:
    chunk = Chunk(index=0, text="Hello.", section=(), line_start=1, line_end=1, start=0, end=6)
    assert chunk_text("Hello.") == [chunk]


def test_two_thousand_characters_are_one_chunk_and_one_more_are_two() -> None:
    text = sentences(60)
    assert [chunk.text for chunk in chunk_text(text[:1999] + ".")] == [text[:1999] + "."]
    assert len(chunk_text(text[:2000] + ".")) == 2


def test_paragraphs_are_packed_whole() -> None:
    parts = paragraphs(60)
    text = "\n\n".join(parts)
    packed = [part for own in own_texts(text) for part in own.split("\n\n")]
    assert packed == parts


def test_chunks_are_well_filled() -> None:
    chunks = chunk_text("\n\n".join(paragraphs(600)))
    assert sum(len(chunk.text) for chunk in chunks) / len(chunks) > 0.6 * CHUNK_MAX_CHARS


def test_neighbours_overlap_by_about_two_hundred_characters_from_the_start_of_a_sentence() -> None:
    text = "\n\n".join(paragraphs(200))
    chunks = chunk_text(text)
    overlaps = [before.end - chunk.start for before, chunk in itertools.pairwise(chunks)]
    assert all(100 <= overlap <= 250 for overlap in overlaps)
    assert 170 < sum(overlaps) / len(overlaps) < 230
    assert all(regex.fullmatch(r"[.\n]\s*", text[chunk.start - 2 : chunk.start]) for chunk in chunks[1:])


def test_a_paragraph_of_two_thousand_characters_is_not_cut() -> None:
    long = (sentences(60)[:1999] + ".").replace(". ", ", ")
    text = f"{sentences(10)}\n\n{long}\n\n{sentences(10)}"
    assert long in [chunk.text for chunk in chunk_text(text)]


def test_a_paragraph_over_the_limit_is_cut_at_sentence_ends() -> None:
    assert all(own.endswith(".") for own in own_texts(sentences(200)))


def test_abbreviations_before_small_letters_do_not_end_a_sentence() -> None:
    text = " ".join(f"The cat, e.g. the old one, i.e. number {number}, sleeps." for number in range(100))
    assert all(own.endswith("sleeps.") for own in own_texts(text))


def test_a_paragraph_without_sentences_is_cut_at_line_ends() -> None:
    text = "\n".join(f"entry {number} of many" for number in range(400))
    assert all(own.splitlines()[0].startswith("entry") and own.endswith("many") for own in own_texts(text))


def test_a_long_line_is_cut_at_words() -> None:
    text = " ".join(f"word{number:05}" for number in range(1000))
    assert all(regex.fullmatch(r"(word\d{5} ?)+", chunk.text) for chunk in chunk_text(text))


def test_a_line_without_words_is_cut_hard() -> None:
    text = "x" * 10_000
    chunks = chunk_text(text)
    assert "".join(own_texts(text)) == text
    assert all(len(chunk.text) <= CHUNK_MAX_CHARS for chunk in chunks)
    assert len(chunks) == 6


@pytest.mark.parametrize(
    "grapheme", ["e\u0301", "\U0001f1e9\U0001f1ea", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "ก็"]
)
def test_graphemes_are_not_cut(grapheme: str) -> None:
    for prefix in ("", "x"):
        for chunk in chunk_text(prefix + grapheme * 3000):
            assert chunk.text.removeprefix(prefix).replace(grapheme, "") == ""


def test_a_grapheme_over_the_limit_is_cut_as_a_last_resort() -> None:
    text = "a" + "\u0301" * 5000
    assert "".join(own_texts(text)) == text


def test_chinese_is_cut_behind_its_full_stops() -> None:
    text = "".join(f"第{number}句話在這裡說完了。" for number in range(500))
    assert all(own.endswith("。") for own in own_texts(text))


def test_thai_is_cut_at_its_spaces() -> None:
    text = " ".join(["สวัสดีครับผมชื่อสมชาย"] * 300)
    assert all(own.startswith("สวัสดี") and own.endswith("สมชาย") for own in own_texts(text))


def test_a_heading_stays_with_the_paragraph_after_it() -> None:
    text = "\n\n".join(f"## Section {number}\n\n{part}" for number, part in enumerate(paragraphs(100)))
    for own in own_texts(text):
        assert not own.splitlines()[-1].startswith("#")


def test_a_run_of_headings_stays_with_a_paragraph_over_the_limit() -> None:
    text = f"{sentences(20)}\n\n# A\n\nB\n---\n\n### C\n\n{sentences(100)}"
    (own,) = [own for own in own_texts(text) if "# A" in own]
    assert regex.search(r"# A\n\nB\n---\n\n### C\n\n\w+ \w+", own)


def test_an_anchor_stays_with_its_heading() -> None:
    text = "\n\n".join(
        f'<a id="{number}"></a>\n\n## N {number}\n\n{part}' for number, part in enumerate(paragraphs(80))
    )
    assert all(own.startswith("<a id") for own in own_texts(text))


def test_a_last_heading_without_a_paragraph_is_kept() -> None:
    assert chunk_text(f"{sentences(60)}\n\n# End")[-1].text.endswith("# End")


def test_a_hundred_headings_and_nothing_else() -> None:
    text = "\n".join(f"# Heading number {number}" for number in range(200))
    assert "".join("".join(own_texts(text)).split()) == "".join(text.split())


def test_a_section_is_the_path_of_headings_above_the_first_own_paragraph() -> None:
    text = "\n\n".join(
        [
            sentences(12),
            "# One #",
            sentences(14, 1),
            "## Two",
            sentences(15, 2),
            "Three\n=====",
            sentences(16, 3),
            "#### Four",
            sentences(60, 4),
        ]
    )
    sections = [chunk.section for chunk in chunk_text(text)]
    assert sections[0] == ()
    assert sections[-1] == ("Three", "Four")
    assert set(sections) <= {(), ("One",), ("One", "Two"), ("Three",), ("Three", "Four")}


def test_the_section_is_that_of_the_own_part_not_of_the_overlap() -> None:
    text = f"# One\n\n{sentences(20)}\n\n# Two\n\n{sentences(20, 1)}"
    first, second = chunk_text(text)
    assert (first.section, second.section) == (("One",), ("Two",))
    assert not second.text.startswith("# Two")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ranges_are_exact(end: str) -> None:
    lines = [f"{number} {sentences(1, number)}" if number % 4 else "" for number in range(1, 400)]
    for chunk in chunk_text(end.join(lines)):
        assert lines[chunk.line_start - 1].endswith(chunk.text.split(end)[0])
        assert lines[chunk.line_end - 1].startswith(chunk.text.split(end)[-1])


def test_a_unicode_line_separator_starts_no_line() -> None:
    assert [chunk.line_end for chunk in chunk_text("a\u2028b\x0bc\u0085d\ne")] == [2]


def test_a_fence_that_fits_is_kept_whole() -> None:
    fence = "```python\n" + "\n\n".join(f"value_{number} = {number}" for number in range(110)) + "\n```"
    assert 1500 < len(fence) < 1750
    text = "\n\n".join([*paragraphs(20), fence, *paragraphs(20, 1)])
    assert sum(fence in own for own in own_texts(text)) == 1


def test_a_fence_over_the_limit_is_cut_between_lines() -> None:
    fence = "~~~~\n" + "\n".join(f"# value {number}. Is it so? Yes" for number in range(300)) + "\n~~~~"
    for own in own_texts(fence):
        assert all(regex.fullmatch(r"# value \d+\. Is it so\? Yes|~~~~", line) for line in own.splitlines())
    assert {chunk.section for chunk in chunk_text(fence)} == {()}


def test_a_table_that_fits_is_kept_whole() -> None:
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| cell {number} | Text. And more. |" for number in range(50))
    text = "\n\n".join([*paragraphs(20), table, *paragraphs(20, 1)])
    assert sum(table in own for own in own_texts(text)) == 1


def test_a_table_over_the_limit_is_cut_between_rows() -> None:
    rows = [f"| cell {number} | A sentence. Another one. |" for number in range(300)]
    text = "\n".join(["| a | b |", "|---|---|", *rows])
    for chunk in chunk_text(text):
        assert all(line.startswith("|") and line.endswith("|") for line in chunk.text.splitlines())


def test_a_list_that_fits_is_kept_whole() -> None:
    items = "\n".join(f"- Item {number}. With two sentences.\n\n  And a paragraph." for number in range(25))
    text = "\n\n".join([*paragraphs(20), items, *paragraphs(20, 1)])
    assert sum(items in own for own in own_texts(text)) == 1


def test_a_list_over_the_limit_is_cut_between_items() -> None:
    text = "\n".join(f"* Item {number}. {sentences(3, number)}\n  - Nested. Words." for number in range(60))
    assert all(own.startswith("* Item") and own.endswith("- Nested. Words.") for own in own_texts(text))


def test_a_lead_in_stays_with_its_list() -> None:
    parts: list[str] = []
    for number, part in enumerate(paragraphs(60)):
        parts += [part, f"{sentences(2, number)} These are the reasons:", "- One.\n- Two.\n- Three."]
    assert not any(own.endswith("reasons:") for own in own_texts("\n\n".join(parts)))
