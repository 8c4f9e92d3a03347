"""What indexing costs beside a bare COPY of the same passages, with a provider that costs nothing.

Usage: ``python benchmarks/ingest.py [--passages 8000 20000] [--threads 1 4] [--repeat 3] [--shares] [--check]``.

Ours is a whole first pass of one worker: read the source, check and store the documents, claim, chunk, embed (a model
that answers at once), write, take the words, index, count the words, serve. With one thread the holder of the lease
does all of it; with more, helpers embed beside it, as in any worker process. ``--shares`` shows where its time goes; of
several threads it adds them up.

The bare side is one connection that gets every value ready in memory and sends it with psycopg's binary COPY into a
table made like the one the pass has filled, with the same indexes built at the same moment with the same memory and
workers: those of the shared table before the load; those of an own table (more than 10,000 passages: HNSW over the
vectors, GIN over the words), its key apart, after it. Two kinds of it:

- ``COPY + to_tsvector`` takes the words as ours does: by way of a temporary table, ``to_tsvector`` in one INSERT. This
  is the one with a bar, for prose.
- ``COPY`` leaves the words out, as in a store that is not searched by them; ours takes them all the same, so this one
  only shows what they cost.

Two shapes: prose of about 17 passages a document, and rows of one passage of 500 characters, where the price of a
document (stored, claimed, settled) is paid for each passage; it has no bar. Ratios are of wall times that follow each
other, the median of some pairs: the load of the machine still moves them by a tenth or two.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import harness
import numpy as np
import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from knowledge_worker import Knowledge, KnowledgeCollection, define_knowledge_source
from knowledge_worker.chunking import chunk_text
from knowledge_worker.chunking.words import searchable
from knowledge_worker.store.postgres.own_tables import BUILD_WORKERS
from knowledge_worker.store.postgres.placement import COLUMNS

DIMENSIONS = 256
RATIO_MIN = 0.55
MEMORY_MB = 256
SENT = tuple(column for column in COLUMNS if column[0] != "words")
SHAPES = ("prose", "rows")
_numbers = itertools.count(1)


def words(rng: random.Random) -> list[str]:
    """A vocabulary of 20,000 words, drawn from as often as words of a language are (Zipf)."""
    syllables = ["ka", "lo", "mir", "ten", "su", "vel", "or", "pa", "din", "he", "gra", "ni", "tu", "bes", "wo", "al"]
    vocabulary = [
        "".join(rng.choices(syllables, k=rng.randrange(1, 5))) + str(n % 97) * (n % 7 == 0) for n in range(20_000)
    ]
    weights = [1 / (rank + 2) for rank in range(len(vocabulary))]
    return rng.choices(vocabulary, weights=weights, k=400_000)


def contents(shape: str, passages: int) -> list[str]:
    """Documents that make about so many passages."""
    rng = random.Random(11)
    stream = words(rng)

    def prose(characters: int) -> str:
        text: list[str] = []
        length = 0
        while length < characters:
            first, count = rng.randrange(len(stream) - 20), rng.randrange(6, 19)
            sentence = " ".join(stream[first : first + count]).capitalize() + "."
            text.append(sentence)
            length += len(sentence) + 1
        return " ".join(text)

    if shape == "rows":
        return [prose(460) for _ in range(passages)]
    found: list[str] = []
    made = 0
    while made < passages:
        paragraphs = [prose(rng.randrange(200, 900)) for _ in range(28)]
        found.append("\n\n".join(["# Page", *paragraphs[:14], "## Part", *paragraphs[14:]]))
        made += len(chunk_text(found[-1]))
    return found


class Shares:
    """Where the time of a pass goes: seconds inside some functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, owner: Any, name: str, what: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        def outer(*args: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return inner(*args, **options)
            finally:
                self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started

        setattr(owner, name, outer)


@dataclass(frozen=True)
class Run:
    """A whole first pass, and where its passages are then."""

    seconds: float
    table: str
    generation: int


def ours(url: str, name: str, texts: Sequence[str], shares: Shares, *, threads: int = 1) -> Run:
    """Index ``texts`` as a new collection."""

    def documents() -> Iterator[dict[str, object]]:
        for number, text in enumerate(texts):
            yield {"id": f"doc-{number}", "title": f"Document {number}", "content": text}

    source = define_knowledge_source(kind="benchmark", documents=documents)
    queue = harness.HelperThreads(threads)
    queue.knowledge = knowledge = harness.knowledge_of(
        url,
        KnowledgeCollection(name, model=harness.InstantModel(DIMENSIONS), sources=[source]),
        settings={"index_memory_mb": MEMORY_MB, "embed_concurrency": threads},
        queue=queue,
    )
    knowledge.node_started(["sync"])
    watch_store(knowledge, shares)
    knowledge.sync(name)
    started = time.perf_counter()
    outcome = knowledge.run_pass(name)
    seconds = time.perf_counter() - started
    if outcome != "ok":
        raise RuntimeError(outcome)
    queue.finish()
    collection = knowledge.collection(name)
    knowledge.close()
    assert collection.serving is not None
    with psycopg.connect(url) as connection:
        row = connection.execute("select storage from generations where id = %s", [collection.serving.id]).fetchone()
    assert row is not None
    generation = collection.serving.id
    return Run(seconds, f"chunks_{generation}" if row[0] == "own" else "chunks", generation)


def watch_store(knowledge: Knowledge, shares: Shares) -> None:
    """Look at the parts of ``knowledge`` only: what is watched goes with it."""
    store = knowledge._parts.store
    shares.watch(store.documents, "claim", "claim documents")
    shares.watch(store.generations, "kept_vectors", "look for vectors that are there")
    shares.watch(store.generations, "settle", "write passages")
    shares.watch(store.generations, "fit_storage", "index")
    shares.watch(store.leases, "succeed", "serve")


class Bare:
    """The passages of a table, ready in memory, and the table made anew beside it."""

    def __init__(self, url: str, table: str, generation: int) -> None:
        self._url = url
        self.own = table != "chunks"
        self._source = table
        names = [name for name, _ in SENT]
        with psycopg.connect(url) as connection:
            register_vector(connection)
            where = "true" if self.own else f"generation_id = {generation}"
            rows = connection.execute(
                f"select {', '.join(names)} from {table} where {where} order by document_id, ord"
            ).fetchall()
            self._indexes = [
                (definition, unique)
                for definition, unique in connection.execute(
                    "select pg_get_indexdef(indexrelid), indisunique from pg_index where indrelid = %s::regclass",
                    [table],
                )
            ]
        embedding = names.index("embedding")
        first = () if self.own else (generation,)
        self.rows = [
            (
                *first,
                *row[:embedding],
                HalfVector(np.asarray(row[embedding].to_numpy(), np.float16)),
                *row[embedding + 1 :],
            )
            for row in rows
        ]
        self.columns = (() if self.own else (("generation_id", "int8"),)) + SENT
        title, text = names.index("title"), names.index("text")
        self.searchable = [searchable(f"{row[title]}\n{row[text]}") for row in rows]

    def run(self, *, with_words: bool) -> float:
        """Seconds to load and to index."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            register_vector(connection)
            connection.execute("drop table if exists bare")
            connection.execute(f"create table bare (like {self._source} including defaults including storage)")
            self._make_indexes(connection, before=True)
            started = time.perf_counter()
            with connection.transaction():
                if with_words:
                    self._load_with_words(connection)
                else:
                    self._copy(connection, "bare", self.columns, self.rows)
            if self.own:
                connection.execute(f"set maintenance_work_mem = '{MEMORY_MB}MB'")
                connection.execute(f"set max_parallel_maintenance_workers = {BUILD_WORKERS}")
                connection.execute("vacuum (analyze) bare")
            self._make_indexes(connection, before=False, words=with_words)
            return time.perf_counter() - started

    def _make_indexes(self, connection: psycopg.Connection[Any], *, before: bool, words: bool = True) -> None:
        for number, (definition, is_unique) in enumerate(self._indexes):
            # Those of an own table are built after the load, its key apart.
            if (is_unique or not self.own) is before and (words or "(words)" not in definition):
                _, _, rest = definition.partition(" USING ")
                kind = "unique index" if is_unique else "index"
                connection.execute(f"create {kind} bare_{number} on bare using {rest}")

    def _load_with_words(self, connection: psycopg.Connection[Any]) -> None:
        names = ", ".join(name for name, _ in self.columns)
        sent = (*self.columns, ("searchable", "text"))
        types = ", ".join(f"{name} {kind}" for name, kind in sent)
        connection.execute(f"create temporary table arriving_bare ({types}) on commit drop")
        rows = ((*row, text) for row, text in zip(self.rows, self.searchable, strict=True))
        self._copy(connection, "arriving_bare", sent, rows)
        connection.execute(
            f"insert into bare ({names}, words) select {names}, to_tsvector('simple', searchable) from arriving_bare"
        )

    @staticmethod
    def _copy(
        connection: psycopg.Connection[Any], table: str, columns: Sequence[tuple[str, str]], rows: Iterable[Any]
    ) -> None:
        names = ", ".join(name for name, _ in columns)
        with connection.cursor() as cursor, cursor.copy(f"copy {table} ({names}) from stdin (format binary)") as copy:
            copy.set_types([kind for _, kind in columns])
            for row in rows:
                copy.write_row(row)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, nargs="+", default=[8_000, 20_000])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 4], help="of the worker")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--shares", action="store_true", help="show where the time of a pass goes")
    parser.add_argument("--check", action="store_true", help="end with 1 when a bar is missed")
    options = parser.parse_args(argv)
    report = harness.Report()
    with harness.database() as url:
        print(harness.described_machine(url))
        knowledge = harness.knowledge_of(url)
        knowledge.migrate()
        knowledge.close()
        for shape in options.shapes:
            for passages in options.passages:
                measure(report, url, shape, contents(shape, passages), options)
    report.show()
    return report.status(check=options.check)


@dataclass(frozen=True)
class Pair:
    """Seconds of ours and of what was run right after it."""

    ours: float
    copy: float
    with_words: float
    shares: Shares


def measure(report: harness.Report, url: str, shape: str, texts: Sequence[str], options: argparse.Namespace) -> None:
    pairs: dict[int, list[Pair]] = {threads: [] for threads in options.threads}
    count = 0
    for _ in range(options.repeat):
        for threads, found in pairs.items():
            shares = Shares()
            run = ours(url, f"benchmark-{next(_numbers)}", texts, shares, threads=threads)
            bare = Bare(url, run.table, run.generation)
            count = len(bare.rows)
            found.append(Pair(run.seconds, bare.run(with_words=False), bare.run(with_words=True), shares))
    for threads, found in pairs.items():
        seconds = statistics.median(one.ours for one in found)
        what = f"{shape}, {count:,} passages, {threads} thread{'s' * (threads > 1)}"
        report.add(f"{what}: ours", f"{count / seconds:,.0f} passages/s")
        add_ratio(report, f"{what}: of COPY + to_tsvector", count, [(one.ours, one.with_words) for one in found], shape)
        add_ratio(report, f"{what}: of COPY", count, [(one.ours, one.copy) for one in found])
        if options.shares:
            for part in found[0].shares.seconds:
                took = statistics.median(one.shares.seconds[part] for one in found)
                report.add(f"{what}: {part}", f"{1e6 * took / count:,.0f} us a passage, {took / seconds:.0%}")


def add_ratio(
    report: harness.Report, what: str, count: int, pairs: Sequence[tuple[float, float]], shape: str = ""
) -> None:
    ratios = sorted(bare / product for product, bare in pairs)
    ratio = statistics.median(ratios)
    bare = statistics.median(bare for _, bare in pairs)
    bar = f"at least {RATIO_MIN:.0%}" if shape == "prose" else ""
    report.add(
        f"{what} ({count / bare:,.0f}/s)",
        f"{ratio:.0%} ({ratios[0]:.0%} to {ratios[-1]:.0%})",
        bar=bar,
        ok=not bar or ratio >= RATIO_MIN,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
