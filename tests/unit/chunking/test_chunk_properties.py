import string

import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_worker.chunking import chunk_text
from knowledge_worker.chunking.blocks import BlockKind, parse_blocks
from knowledge_worker.domain.document import is_blank
from knowledge_worker.domain.limits import CHUNK_MAX_CHARS

LINE_END = regex.compile(r"\r\n|\r|\n")
STRANGE = (
    "\u2028\u2029\x0b\x0c\x85\u200b\u200d\u0301\u0903\u0600\ufeff\u00ad\U0001f1e9\U0001f468漢字。！ก็كم؟॥\ud800\x00"
)

words = st.text(string.ascii_letters + string.digits + STRANGE, min_size=1, max_size=12)
prose = st.lists(words, min_size=1, max_size=120).map(" ".join)
sentence_prose = st.lists(prose, min_size=1, max_size=6).map(". ".join)
markdown = st.sampled_from(
    [
        *(
            "# ",
            "## Head",
            "###### x ##",
            "Title\n===",
            "Sub\n---",
            "---",
            "***",
            "```",
            "````py",
            "~~~",
            "  ```",
            "- item",
        ),
        *("  - nested", "1. one", "10) ten", "| a | b |", "|---|---|", "a | b", "> quote", "    code", "<!-- x", "-->"),
        *("<pre>", "</pre>", '<a id="x"></a>', "reasons:", "\t# tab", "---\nkey: value\n---", "|", "#", "`", "…", "\\"),
    ]
)
runs = st.builds(
    lambda unit, count: unit * count,
    st.sampled_from(
        ["x", "# ", "|", "`", "-", "a\n", "\n", " ", ". ", "漢", "e\u0301", "\u0301", "\U0001f1e9", "\r\n", "- a\n"]
    ),
    st.integers(1, 5000),
)
line_ends = st.sampled_from(["\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\n \t\n", " ", "", "\u2028"])
texts = st.lists(
    st.tuples(st.one_of(prose, sentence_prose, markdown, runs, st.text(max_size=300)), line_ends), max_size=40
).map(lambda parts: "".join(part for pair in parts for part in pair))

many = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@many
@given(texts)
def test_chunks_are_slices_in_order_within_the_limit_and_lose_nothing(text: str) -> None:
    chunks = chunk_text(text)
    covered = 0
    for index, chunk in enumerate(chunks):
        assert chunk.index == index
        assert chunk.text == text[chunk.start : chunk.end]
        assert 1 <= len(chunk.text) <= CHUNK_MAX_CHARS
        assert not is_blank(chunk.text)
        assert is_blank(text[covered : chunk.start])
        assert chunk.end > covered
        covered = chunk.end
    assert is_blank(text[covered:])
    starts = [chunk.start for chunk in chunks]
    assert starts == sorted(set(starts))


@many
@given(texts)
def test_a_text_within_the_limit_is_one_chunk(text: str) -> None:
    text = text[:CHUNK_MAX_CHARS]
    assert len(chunk_text(text)) == (0 if is_blank(text) else 1)


@many
@given(texts)
def test_line_ranges_are_those_of_the_first_and_last_character(text: str) -> None:
    line_starts = [0, *(match.end() for match in LINE_END.finditer(text))]

    def line_of(offset: int) -> int:
        return sum(start <= offset for start in line_starts)

    for chunk in chunk_text(text):
        assert (chunk.line_start, chunk.line_end) == (line_of(chunk.start), line_of(chunk.end - 1))


@many
@given(texts)
def test_no_cut_is_inside_a_short_grapheme(text: str) -> None:
    inside: set[int] = set()
    for match in regex.finditer(r"\X", text):
        # White space at an edge is left out, which is no cut.
        if match.end() - match.start() <= CHUNK_MAX_CHARS // 2 and match.group() == match.group().rstrip():
            inside.update(range(match.start() + 1, match.end()))
    for chunk in chunk_text(text):
        assert chunk.start not in inside
        assert chunk.end not in inside


@many
@given(texts)
def test_a_heading_is_last_only_where_nothing_but_headings_follows(text: str) -> None:
    blocks = list(parse_blocks(text))
    ends = {block.end for block in blocks if block.kind is BlockKind.HEADING}
    others = [block for block in blocks if block.kind not in (BlockKind.HEADING, BlockKind.ANCHOR)]
    for chunk in chunk_text(text):
        if chunk.end in ends:
            after = next(
                (
                    block.start
                    for block in others
                    if block.start >= chunk.end and not is_blank(text[block.start : block.end])
                ),
                None,
            )
            # Headings that are over half the limit on their own cannot stay with what follows.
            assert after is None or after - chunk.end > CHUNK_MAX_CHARS // 4


@settings(max_examples=50, deadline=None)
@given(texts)
def test_the_same_text_has_the_same_chunks(text: str) -> None:
    assert chunk_text(text) == chunk_text(text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts, texts)
def test_blocks_are_in_order_and_hold_every_visible_character(before: str, after: str) -> None:
    text = before + after
    covered = 0
    for block in parse_blocks(text):
        assert covered <= block.start < block.end
        assert not text[covered : block.start].strip()
        covered = block.end
    assert not text[covered:].strip()
