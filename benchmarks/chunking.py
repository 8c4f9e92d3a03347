"""What chunking costs, how full chunks are, and how many an edit makes new.

Usage: ``python benchmarks/chunking.py [FILE ...]``; the files (Markdown or text) are measured beside made-up prose.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

from knowledge_worker.chunking import chunk_text
from knowledge_worker.domain.limits import CHUNK_MAX_CHARS

MEBIBYTE = 1 << 20
EDITS = 200
WORDS = ["river", "stone", "light", "the", "of", "under", "amber", "garden", "window", "slowly", "carries", "a"]
UNITS = [
    "a",
    "\n",
    "# a\n",
    "a\n\n",
    "- x\n",
    "```\n",
    "|a|b|\n",
    "word ",
    "A b. ",
    ".",
    "漢字",
    "\u0301",
    "\U0001f1e9",
]


def paragraph(rng: random.Random) -> str:
    length = int(min(1900, max(40, rng.lognormvariate(5.7, 0.7))))
    text = ""
    while len(text) < length:
        text += " ".join(rng.choices(WORDS, k=rng.randrange(5, 18))).capitalize() + f" {rng.randrange(100)}. "
    return text.strip()


def document(rng: random.Random, headings: float) -> list[str]:
    parts: list[str] = []
    for number in range(800):
        if rng.random() < headings:
            parts.append(f"{'#' * rng.randrange(1, 4)} Section {number}")
        parts.append(paragraph(rng))
    return parts


def edited(parts: list[str], rng: random.Random) -> list[str]:
    at = rng.randrange(len(parts))
    kind = rng.randrange(4)
    if kind == 0:
        return [*parts[:at], paragraph(rng), *parts[at + 1 :]]
    if kind == 1:
        return [*parts[:at], paragraph(rng), *parts[at:]]
    if kind == 2:
        return [*parts[:at], *parts[at + 1 :]]
    half = len(parts[at]) // 2
    return [*parts[:at], parts[at][:half] + " changed " + parts[at][half:], *parts[at + 1 :]]


def cpu_seconds(text: str) -> float:
    start = time.process_time()
    chunk_text(text)
    return time.process_time() - start


def report_cost(name: str, text: str) -> None:
    half, whole = cpu_seconds(text[: len(text) // 2]), cpu_seconds(text)
    print(f"{name:24} {whole * MEBIBYTE / len(text):6.2f} s/MiB   twice the text: {whole / max(half, 1e-3):.1f} times")


def report_edits(name: str, parts: list[str]) -> None:
    rng = random.Random(1)
    chunks = chunk_text("\n\n".join(parts))
    before = {chunk.text for chunk in chunks}
    new = Counter(
        len({chunk.text for chunk in chunk_text("\n\n".join(edited(parts, rng)))} - before) for _ in range(EDITS)
    )
    fill = sum(len(chunk.text) for chunk in chunks) / len(chunks) / CHUNK_MAX_CHARS
    mean = sum(count * times for count, times in new.items()) / EDITS
    over = sum(times for count, times in new.items() if count > 3) / EDITS
    print(
        f"{name:24} {len(chunks):5} chunks, {fill:.0%} full; an edit makes {mean:.2f} new, "
        f"over 3 in {over:.1%}, at most {max(new)}"
    )


def main() -> None:
    rng = random.Random(5)
    documents = {"prose": document(rng, 0), "prose with headings": document(rng, 0.15)}
    for file in map(Path, sys.argv[1:]):
        text = file.read_text(encoding="utf-8", errors="replace")[:MEBIBYTE]
        documents[file.name] = [part for part in re.split(r"\n[ \t]*\n", text) if part.strip()]
    print("# CPU time")
    for name, parts in documents.items():
        report_cost(name, "\n\n".join(parts))
    for unit in UNITS:
        report_cost(f"only {unit!r}", unit * (MEBIBYTE // len(unit)))
    print(f"# {EDITS} edits of one paragraph: replaced, inserted, deleted, reworded")
    for name, parts in documents.items():
        report_edits(name, parts)


if __name__ == "__main__":
    main()
