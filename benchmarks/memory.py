"""Whether a worker's memory stays flat: over many passes, and over a document of 1 MiB with one line.

Usage: ``python benchmarks/memory.py [--passes 50] [--documents 10000] [--check]``.

A worker of one process runs so many passes over a source of which one document in a hundred changes each time. What it
holds after the first tenth of the passes is compared with what it holds after the last one, both after a garbage
collection. Then it indexes a document of 1 048 576 characters without a line end, of words and without a space, and
the most that it held meanwhile is compared with what it held before.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator

import harness
from unchanged import memory_kb, peak_memory_kb

from knowledge_worker import Knowledge, KnowledgeCollection, define_knowledge_source

GROWTH_MAX = 1.05
LINE_CHARS = 1_048_576
LINE_MAX_MB = 200
"""Of 1 million characters: their passages, vectors and words, in a few copies each."""


class Changing:
    """A source of which some documents change from read to read."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.reads = 0
        self.lines: dict[str, str] = {}

    def source(self) -> object:
        def documents() -> Iterator[dict[str, str]]:
            self.reads += 1
            for number in range(self.count):
                version = self.reads if (number + self.reads) % 100 == 0 else 0
                text = f"Document {number}, version {version}, says something about a subject that people ask for. "
                yield {"id": f"d{number}", "content": text * 5}
            for name, line in self.lines.items():
                yield {"id": name, "content": line}

        return define_knowledge_source(kind="changing", documents=documents)


def held_kb() -> int:
    gc.collect()
    return memory_kb()


def over_passes(knowledge: Knowledge, passes: int, report: harness.Report) -> None:
    """Run them and compare."""
    early = max(2, passes // 10)
    held: list[int] = []
    for number in range(1, passes + 1):
        harness.run_pass(knowledge, "changing")
        if number in (early, passes):
            held.append(held_kb())
    first, last = held
    report.add(
        f"held after {early} and {passes} passes",
        f"{first / 1024:.1f} and {last / 1024:.1f} MB ({last / first:.3f} times)",
        bar=f"at most {GROWTH_MAX:g} times",
        ok=last <= GROWTH_MAX * first,
    )


def over_a_line(knowledge: Knowledge, source: Changing, name: str, line: str, report: harness.Report) -> None:
    """Index one document of one line and see what it took."""
    source.lines = {name: line}
    before = held_kb()
    harness.run_pass(knowledge, "changing")
    more_mb = (peak_memory_kb() - before) / 1024
    documents = knowledge.collection("changing").documents
    report.add(
        f"a line of {len(line):,} characters, {name}",
        f"{more_mb:.0f} MB more than before, {documents.failed} failed",
        bar=f"at most {LINE_MAX_MB} MB",
        ok=more_mb <= LINE_MAX_MB and documents.failed == 0,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=50)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--check", action="store_true", help="end with 1 when a bar is missed")
    options = parser.parse_args()
    report = harness.Report()
    with harness.database() as url:
        print(harness.described_machine(url), flush=True)
        source = Changing(options.documents)
        collection = KnowledgeCollection("changing", model=harness.InstantModel(384), sources=[source.source()])
        knowledge = harness.knowledge_of(url, collection)
        knowledge.migrate()
        knowledge.node_started(["sync", "embed"])
        over_passes(knowledge, options.passes, report)
        words = " ".join(f"word{number}" for number in range(150_000))[:LINE_CHARS]
        over_a_line(knowledge, source, "words", words, report)
        over_a_line(knowledge, source, "without a space", "x" * LINE_CHARS, report)
        knowledge.close()
    report.show()
    return report.status(check=options.check)


if __name__ == "__main__":
    sys.exit(main())
