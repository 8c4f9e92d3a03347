"""What a pass over unchanged documents costs: CPU and memory of the worker, calls of the provider, writes.

Usage: ``python benchmarks/unchanged.py [--documents 100000] [--check]``.

Two sources of about 500 characters a document: a generator that makes rows, and a real table read by keyset pages with
SQLAlchemy. Each is indexed once, then read again unchanged. Every measured pass runs in a process of its own, as a
worker does; its CPU time is that of the whole process, and what exhausting the source alone costs is taken off. So the
load of the machine matters little, and the time PostgreSQL takes for its part does not count.

Memory is the process's peak during its first pass, and by how much that is more than what it held before the pass, for
a tenth of the documents and for all.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import harness
import psycopg
from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, select

from knowledge_worker import Knowledge, KnowledgeCollection, KnowledgeSource, SourceContext, define_knowledge_source
from knowledge_worker.sources.reading import ReadContext

DIMENSIONS = 8
PAGE_ROWS = 500
SENTENCE = "says something about a subject that people ask for. "
PASSES = 5
DOCUMENTS_A_SECOND = 20_000
PEAK_RATIO_MAX = 1.2

articles = Table(
    "articles",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("author", Text, nullable=False),
)


def generator(count: int) -> KnowledgeSource:
    """A source that costs next to nothing."""

    def documents() -> Iterator[dict[str, object]]:
        for number in range(count):
            yield {
                "id": f"row-{number}",
                "title": f"Row {number}",
                "content": f"Row {number} {SENTENCE}" * 8,
                "metadata": {"number": number, "author": "somebody"},
            }

    return define_knowledge_source(kind="generator", documents=documents)


def keyset(count: int, url: str) -> KnowledgeSource:
    """The first rows of a table, as ``examples/table_source.py`` reads them."""

    def documents(context: SourceContext) -> Iterator[dict[str, object]]:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
        try:
            last_id = 0
            while last_id < count and not context.cancelled:
                page = select(articles).where(articles.c.id > last_id).order_by(articles.c.id).limit(PAGE_ROWS)
                with engine.connect() as connection:
                    rows = connection.execute(page).all()
                for row in rows:
                    yield {
                        "id": f"article-{row.id}",
                        "title": row.title,
                        "content": row.body,
                        "metadata": {"number": row.id, "author": row.author},
                    }
                last_id = rows[-1].id
            context.raise_if_cancelled()
        finally:
            engine.dispose()

    return define_knowledge_source(kind="keyset", documents=documents)


def fill_table(url: str, count: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "create table articles (id int primary key, title text not null, body text not null, author text not null)"
        )
        connection.execute(
            "insert into articles select n, 'Row ' || n, repeat('Row ' || n || ' ' || %s, 8), 'somebody' "
            "from generate_series(1, %s) n",
            (SENTENCE, count),
        )


def source_of(kind: str, count: int, url: str) -> KnowledgeSource:
    return generator(count) if kind == "generator" else keyset(count, url)


def worker(url: str, kind: str, count: int) -> tuple[Knowledge, harness.InstantModel, KnowledgeSource, str]:
    source, model, name = source_of(kind, count, url), harness.InstantModel(DIMENSIONS), f"{kind}-{count}"
    # One table for all sizes: an index of vectors has nothing to do with what is measured.
    knowledge = harness.knowledge_of(
        url, KnowledgeCollection(name, model=model, sources=[source]), settings={"own_table_chunks": 10**9}
    )
    return knowledge, model, source, name


@dataclass(frozen=True)
class Measured:
    """What one process found out.

    Attributes:
        pass_s: CPU seconds of each pass.
        source_s: CPU seconds of exhausting the source alone.
        wall_s: seconds of each pass.
        growth_kb: the peak of the process's memory in the first pass less what it held before.
    """

    pass_s: list[float]
    source_s: float
    wall_s: list[float]
    growth_kb: int
    peak_kb: int
    calls: int


def index(url: str, kind: str, count: int) -> None:
    knowledge, *_, name = worker(url, kind, count)
    knowledge.node_started(["sync"])
    harness.run_pass(knowledge, name)
    knowledge.close()


def measure(url: str, kind: str, count: int, passes: int) -> Measured:
    knowledge, model, source, name = worker(url, kind, count)
    # The first use of anything imports and compiles; a pass over nothing has that behind it.
    warm, _, _, nothing = worker(url, "generator", 0)
    warm.node_started(["sync"])
    harness.run_pass(warm, nothing)
    warm.close()
    knowledge.node_started(["sync"])
    before_kb = memory_kb()
    pass_s: list[float] = []
    wall_s: list[float] = []
    peak_kb = before_kb
    for number in range(passes):
        cpu, wall = time.process_time(), time.perf_counter()
        harness.run_pass(knowledge, name)
        pass_s.append(time.process_time() - cpu)
        wall_s.append(time.perf_counter() - wall)
        if number == 0:
            peak_kb = peak_memory_kb()
    counts = knowledge.passes(name, limit=1)[0].counts
    if (counts.read, counts.unchanged) != (count, count):
        raise RuntimeError(f"{counts.unchanged} of {counts.read} documents were unchanged")
    knowledge.close()
    source_s = min(_exhaust(source) for _ in range(3))
    return Measured(pass_s, source_s, wall_s, peak_kb - before_kb, peak_kb, model.calls)


def memory_kb() -> int:
    """What the process holds now; its peak is counted from here on. Where Linux is not, both are its peak so far."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak_memory_kb() -> int:
    """The most that the process held since :func:`memory_kb`."""
    try:
        return _status("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def _exhaust(source: KnowledgeSource) -> float:
    context = ReadContext(kind=source.kind, cancelled=lambda: False)
    cpu = time.process_time()
    for _ in source.documents(context):
        pass
    return time.process_time() - cpu


def written_state(url: str) -> tuple[object, ...]:
    """Which versions of which rows there are: differs after any write."""
    with psycopg.connect(url) as connection:
        return tuple(
            connection.execute(
                f"select count(*), sum(hashtextextended(ctid::text || ' ' || xmin::text, 0)) from {table}"  # type: ignore[arg-type]
            ).fetchone()
            for table in ("documents", "chunks")
        )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--check", action="store_true", help="end with 1 when a bar is missed")
    options = parser.parse_args(argv)
    sizes = (options.documents // 10, options.documents)
    report = harness.Report()
    with harness.database() as url, multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as processes:
        print(harness.described_machine(url))
        knowledge, *_ = worker(url, "generator", 0)
        knowledge.migrate()
        knowledge.close()
        fill_table(url, options.documents)
        for kind in ("generator", "keyset"):
            for count in sizes:
                processes.apply(index, (url, kind, count))
            before = written_state(url)
            small, large = (
                processes.apply(measure, (url, kind, count, passes))
                for count, passes in zip(sizes, (1, PASSES), strict=True)
            )
            written = written_state(url) != before
            add_lines(report, kind, options.documents, small, large, written=written)
    report.show()
    return report.status(check=options.check)


def add_lines(
    report: harness.Report, kind: str, count: int, small: Measured, large: Measured, *, written: bool
) -> None:
    ours = sorted(count / (seconds - large.source_s) for seconds in large.pass_s)
    rate = statistics.median(ours)
    report.add(
        f"{kind}: documents a second of CPU beyond the source",
        f"{rate:,.0f} ({ours[0]:,.0f} to {ours[-1]:,.0f})",
        bar=f"at least {DOCUMENTS_A_SECOND:,}",
        ok=rate >= DOCUMENTS_A_SECOND,
    )
    report.add(f"{kind}: the source alone", f"{count / large.source_s:,.0f}")
    report.add(f"{kind}: documents a second by the clock", f"{count / statistics.median(large.wall_s):,.0f}")
    report.add(
        f"{kind}: peak memory for {count // 10:,} and {count:,} documents",
        f"{small.peak_kb / 1024:.1f} and {large.peak_kb / 1024:.1f} MB "
        f"({small.growth_kb / 1024:.1f} and {large.growth_kb / 1024:.1f} MB more than before)",
        bar="within 20 %",
        ok=large.peak_kb <= PEAK_RATIO_MAX * small.peak_kb,
    )
    calls = small.calls + large.calls
    report.add(f"{kind}: calls of the provider", str(calls), bar="none", ok=calls == 0)
    report.add(
        f"{kind}: rows of documents and chunks written", "some" if written else "none", bar="none", ok=not written
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
