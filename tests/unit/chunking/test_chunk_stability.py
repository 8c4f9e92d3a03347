"""How many chunks an edit makes new: only those have to be embedded again."""

import random
from collections.abc import Callable

import pytest

from knowledge_worker.chunking import chunk_text

WORDS = [
    "river",
    "stone",
    "light",
    "the",
    "of",
    "under",
    "amber",
    "garden",
    "window",
    "slowly",
    "carries",
    "a",
    "be",
    "with",
]


def paragraph(rng: random.Random) -> str:
    length = int(min(1500, max(40, rng.lognormvariate(5.7, 0.7))))
    text = ""
    while len(text) < length:
        text += " ".join(rng.choices(WORDS, k=rng.randrange(5, 18))).capitalize() + f" {rng.randrange(100)}. "
    return text.strip()


def prose(rng: random.Random) -> list[str]:
    return [paragraph(rng) for _ in range(700)]


def headed(rng: random.Random) -> list[str]:
    parts: list[str] = []
    for number in range(700):
        if rng.random() < 0.2:
            parts.append(f"{'#' * rng.randrange(1, 4)} Section {number}")
        parts.append(paragraph(rng))
    return parts


def one_paragraph(rng: random.Random) -> list[str]:
    """One block: every sentence is its own part here, and the cuts are between sentences."""
    return [" ".join(paragraph(rng).split("\n\n")) for _ in range(700)]


def replaced(parts: list[str], at: int, rng: random.Random) -> list[str]:
    return [*parts[:at], paragraph(rng), *parts[at + 1 :]]


def inserted(parts: list[str], at: int, rng: random.Random) -> list[str]:
    return [*parts[:at], paragraph(rng), *parts[at:]]


def deleted(parts: list[str], at: int, rng: random.Random) -> list[str]:
    return [*parts[:at], *parts[at + 1 :]]


def reworded(parts: list[str], at: int, rng: random.Random) -> list[str]:
    half = len(parts[at]) // 2
    return [*parts[:at], parts[at][:half] + " changed " + parts[at][half:], *parts[at + 1 :]]


@pytest.mark.parametrize(("make", "joined"), [(prose, "\n\n"), (headed, "\n\n"), (one_paragraph, " ")])
@pytest.mark.parametrize("edit", [replaced, inserted, deleted, reworded])
def test_one_changed_paragraph_makes_few_chunks_new(
    make: Callable[[random.Random], list[str]],
    joined: str,
    edit: Callable[[list[str], int, random.Random], list[str]],
) -> None:
    rng = random.Random(7)
    parts = make(rng)
    before = {chunk.text for chunk in chunk_text(joined.join(parts))}
    assert len(before) >= 150
    new: list[int] = []
    for _ in range(25):
        after = chunk_text(joined.join(edit(parts, rng.randrange(len(parts)), rng)))
        new.append(len({chunk.text for chunk in after} - before))
    assert sum(new) / len(new) <= 2
    assert sorted(new)[-2] <= 3
    assert max(new) <= 4


def test_appending_leaves_the_chunks_before_the_end() -> None:
    rng = random.Random(3)
    parts = prose(rng)
    before = chunk_text("\n\n".join(parts))
    after = chunk_text("\n\n".join([*parts, paragraph(rng)]))
    assert [chunk for chunk in after if chunk.index < len(before) - 3] == before[:-3]


def test_the_cuts_do_not_depend_on_what_is_far_before() -> None:
    rng = random.Random(5)
    parts = prose(rng)
    whole = {chunk.text for chunk in chunk_text("\n\n".join(parts))}
    tail = [chunk.text for chunk in chunk_text("\n\n".join(parts[350:]))]
    assert set(tail[2:]) <= whole
