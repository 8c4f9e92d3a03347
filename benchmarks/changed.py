"""How many passages are embedded again when one paragraph of a document of 200 passages changes.

Usage: ``python benchmarks/changed.py [--rounds 10] [--check]``.

Real passes over a real database with a provider that remembers what it was sent. In each round one paragraph of every
document is replaced, inserted before another one, deleted or reworded; then a pass runs. The documents are prose, prose
under headings, and Markdown with lists, tables and fences between its paragraphs.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import harness
from chunking import document, edited, paragraph

from knowledge_worker import KnowledgeCollection, define_knowledge_source
from knowledge_worker.chunking import chunk_text
from knowledge_worker.ports import Embeddings, Purpose

DOCUMENTS = 10
PASSAGES = 200
NEW_MAX = 3
DIMENSIONS = 8


class RememberingModel(harness.InstantModel):
    """Keeps the texts it was sent until they are taken."""

    def __init__(self) -> None:
        super().__init__(DIMENSIONS)
        self.sent: list[str] = []

    def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout_ms: int) -> Embeddings:
        self.sent += texts
        return super().embed(texts, purpose=purpose, timeout_ms=timeout_ms)

    def take(self) -> list[str]:
        """What was sent since the last time."""
        sent, self.sent = self.sent, []
        return sent


def markdown(rng: random.Random) -> list[str]:
    """Paragraphs under headings, every fourth part a list, a table or a fence."""
    parts: list[str] = []
    for part in document(rng, 0.15):
        parts.append(part)
        draw = rng.random()
        if draw < 0.1:
            parts.append("\n".join(f"- {paragraph(rng)[:80]}" for _ in range(rng.randrange(3, 9))))
        elif draw < 0.15:
            rows = "\n".join(f"| {n} | {paragraph(rng)[:30]} |" for n in range(rng.randrange(3, 9)))
            parts.append(f"| number | words |\n| --- | --- |\n{rows}")
        elif draw < 0.2:
            parts.append("```\n" + "\n".join(paragraph(rng)[:60] for _ in range(rng.randrange(3, 9))) + "\n```")
    return parts


def of_200_passages(parts: list[str]) -> list[str]:
    """As many of the first parts as make 200 passages."""
    chunks = chunk_text("\n\n".join(parts))
    while len(chunks) > PASSAGES:
        parts = parts[: len(parts) * PASSAGES // len(chunks)]
        chunks = chunk_text("\n\n".join(parts))
    return parts


def paragraph_edited(parts: list[str], rng: random.Random) -> list[str]:
    """One of the four edits; headings, lists, tables and fences stay as they are."""
    while True:
        changed = edited(parts, rng)
        gone = [part for part in parts if part not in changed]
        if all(part[0] not in "#-|`" for part in gone):
            return changed


def embedded_again(
    url: str, kind: str, make: Callable[[random.Random], list[str]], rounds: int
) -> tuple[int, list[int]]:
    """Passages of a document, and for each edit how many were embedded for it."""
    rng = random.Random(17)
    contents = [of_200_passages(make(rng)) for _ in range(DOCUMENTS)]

    def documents() -> Iterator[dict[str, object]]:
        for number, parts in enumerate(contents):
            yield {"id": f"doc-{number}", "content": "\n\n".join(parts)}

    model = RememberingModel()
    source = define_knowledge_source(kind="edited", documents=documents)
    knowledge = harness.knowledge_of(url, KnowledgeCollection(kind, model=model, sources=[source]))
    knowledge.node_started(["sync"])
    harness.run_pass(knowledge, kind)
    first = len(model.take())
    counts: list[int] = []
    for _ in range(rounds):
        for number, parts in enumerate(contents):
            contents[number] = paragraph_edited(parts, rng)
        harness.run_pass(knowledge, kind)
        sent = model.take()
        texts = ["\n\n".join(parts) for parts in contents]
        counts += [sum(one in text for one in sent) for text in texts]
    knowledge.close()
    return first // DOCUMENTS, counts


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help=f"each edits {DOCUMENTS} documents of a kind")
    parser.add_argument("--check", action="store_true", help="end with 1 when a bar is missed")
    options = parser.parse_args(argv)
    report = harness.Report()
    kinds = {"prose": lambda rng: document(rng, 0), "headings": lambda rng: document(rng, 0.15), "markdown": markdown}
    with harness.database() as url:
        print(harness.described_machine(url))
        knowledge = harness.knowledge_of(url)
        knowledge.migrate()
        knowledge.close()
        for kind, make in kinds.items():
            passages, counts = embedded_again(url, kind, make, options.rounds)
            spread = ", ".join(f"{new}: {times}" for new, times in sorted(Counter(counts).items()))
            report.add(f"{kind}: passages of a document", str(passages))
            report.add(
                f"{kind}: embedded after one of {len(counts)} edits",
                f"{statistics.mean(counts):.2f} on the mean, at most {max(counts)} ({spread})",
                bar=f"at most {NEW_MAX}",
                ok=max(counts) <= NEW_MAX,
            )
    report.show()
    return report.status(check=options.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
