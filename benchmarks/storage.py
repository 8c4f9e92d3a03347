"""What storage by size costs and gives: drop, switch, exact search against HNSW.

Usage: ``python benchmarks/storage.py [--passages 100000] [--check]``. Absolute times depend on the machine; the ratios
compare numbers of the same run.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import harness
import numpy as np
import structlog

from knowledge_worker.domain.chunk import Chunk
from knowledge_worker.domain.collection import Collection, Generation
from knowledge_worker.domain.document import checked_document
from knowledge_worker.domain.limits import Limits
from knowledge_worker.domain.passes import PassCounts, PassTrigger
from knowledge_worker.domain.ranking import Fusion
from knowledge_worker.indexing.embed import text_hash
from knowledge_worker.ports import Vectors
from knowledge_worker.store.postgres import PostgresStore
from knowledge_worker.store.postgres.ranking import Statement
from knowledge_worker.store.protocol import (
    DeclaredCollection,
    EmbeddedChunk,
    Lease,
    SearchQuery,
    SearchTarget,
    SettledDocument,
    Success,
)

PASSAGES = 100
"""Of each document."""
TOP = 10
DROP_MAX_S = 1.0


class Clustered:
    """Unit vectors in 500 clusters of a 32-dimensional space, as embeddings of real texts lie in few directions."""

    def __init__(self, dimensions: int) -> None:
        self._rng = np.random.default_rng(7)
        self._centres = self._rng.normal(size=(500, 32))
        self._projection = self._rng.normal(size=(32, dimensions))

    def draw(self, count: int) -> Vectors:
        latent = self._centres[self._rng.integers(0, 500, count)] + 0.6 * self._rng.normal(size=(count, 32))
        vectors = (latent @ self._projection).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _statement(target: SearchTarget, *, exact: set[int]) -> str:
    return Statement(
        targets=[target],
        semantic=True,
        words=None,
        fusion=Fusion(),
        candidates=TOP,
        limit=TOP,
        per_document=TOP,
        exact=exact,
    ).sql()


class Loaded:
    """A collection with so many passages in a generation of the storage that fits."""

    def __init__(self, store: PostgresStore, name: str, passages: int, vectors: Clustered, dimensions: int) -> None:
        self.store, self.name, self.vectors, self.dimensions = store, name, vectors, dimensions
        store.collections.ensure_declared(
            DeclaredCollection(
                name=name, title=None, description=None, model="m", trusted=True, resync_ms=None, fingerprint="f"
            )
        )
        lease = self.acquire()
        documents = [checked_document({"id": f"d{n}", "content": f"document {n}"}) for n in range(passages // PASSAGES)]
        with store.documents.reading(lease.guard) as reading:
            reading.store("o", documents, kept_owners=frozenset())
        self.load_s, self.index_s, self.switch_s = self.embed(lease, "m", PASSAGES)

    @property
    def collection(self) -> Collection:
        found = self.store.collections.find(self.name, counts=False)
        assert found is not None
        return found

    @property
    def target(self) -> SearchTarget:
        collection = self.collection
        assert collection.serving is not None
        return SearchTarget(key=collection.key, name=self.name, trusted=True, generation=collection.serving)

    def acquire(self) -> Lease:
        self.store.leases.request(self.name, trigger=PassTrigger.REQUEST, force=True, confirm_deletes=False)
        lease = self.store.leases.acquire(self.collection.key, holder="benchmark", declaration="f")
        assert lease is not None
        return lease

    def embed(self, lease: Lease, model: str, passages: int) -> tuple[float, float, float]:
        """Write every document to a new generation and serve it: seconds to load, to index and to switch."""
        generations = self.store.generations
        generation = generations.begin(lease.guard, model=model, dimensions=self.dimensions, chunker="c")
        started = time.perf_counter()
        self._write(lease, generation, passages)
        loaded = time.perf_counter()
        generations.fit_storage(lease.guard, generation, check=lambda: None, progress=lambda: None)
        indexed = time.perf_counter()
        assert self.store.leases.succeed(lease, Success(switch_to=generation.id))
        return loaded - started, indexed - loaded, time.perf_counter() - indexed

    def search(self, vector: Vectors) -> list[tuple[str, int]]:
        matches = self.store.chunks.search(
            [self.target], SearchQuery(vector=vector, words=None, limit=TOP, candidates=TOP, per_document=TOP)
        )
        assert matches is not None
        return [(match.document, match.index) for match in matches]

    def exact(self, vector: Vectors) -> list[tuple[str, int]]:
        """The same statement with the index out of use."""
        target = self.target
        with self.store.database.transaction() as tx:
            rows = tx.rows(
                _statement(target, exact={target.key}),
                query="[" + ",".join(map(str, vector.tolist())) + "]",
                keys=[target.key],
            )
        return [(row["document"], row["ord"]) for row in rows]

    def _write(self, lease: Lease, generation: Generation, passages: int) -> None:
        text = "A passage of about six hundred characters, as documentation has them. " * 9
        while claimed := self.store.documents.claim(
            lease.guard, generation, token="benchmark", limit=50, max_chars=10**9, alone=False
        ):
            settled = [
                SettledDocument(
                    document=document,
                    chunks=[_chunk(f"{text}{document.id} {n}", n) for n in range(passages)],
                    vectors=self.vectors.draw(passages),
                )
                for document in claimed
            ]
            self.store.generations.settle(
                lease.guard, generation, settled, token="benchmark", pass_id=1, work=PassCounts()
            )


def _chunk(text: str, number: int) -> EmbeddedChunk:
    chunk = Chunk(index=number, text=text, section=(), line_start=1, line_end=1, start=0, end=len(text))
    return EmbeddedChunk(chunk=chunk, text_hash=text_hash(text))


def times_ms(call: Callable[[Vectors], object], queries: Vectors) -> tuple[float, float]:
    """p50 and p95 of one call a query."""
    taken = []
    for query in queries:
        started = time.perf_counter()
        call(query)
        taken.append(1000 * (time.perf_counter() - started))
    return percentiles(taken)


def percentiles(taken: list[float]) -> tuple[float, float]:
    ordered = sorted(taken)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


def recall(loaded: Loaded, queries: Vectors) -> float:
    return sum(len({*loaded.search(one)} & {*loaded.exact(one)}) for one in queries) / (TOP * len(queries))


class Searcher:
    """Searches one collection all the time and remembers when each search ran and how long it took."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._stop = threading.Event()
        self.taken: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        queries = self._loaded.vectors.draw(200)
        while not self._stop.is_set():
            for query in queries:
                started = time.perf_counter()
                self._loaded.search(query)
                self.taken.append((started, time.perf_counter()))
                if self._stop.is_set():
                    return

    def between(self, start: float, end: float) -> list[float]:
        """Milliseconds of the searches that overlap a time."""
        return [1000 * (to - since) for since, to in self.taken if to >= start and since <= end]

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000, help="of the large generation")
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--check", action="store_true", help="end with 1 when a bar is missed")
    options = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with harness.database() as url:
        print(harness.described_machine(url))
        drop_s = measure(url, options.passages, options.dimensions)
    return 1 if options.check and drop_s >= DROP_MAX_S else 0


def measure(url: str, passages: int, dimensions: int) -> float:
    """Print everything; the seconds of the drop."""
    limits = Limits(own_table_chunks=5_000)
    store = PostgresStore(url, limits=limits)
    store.migrate()
    vectors = Clustered(dimensions)
    shared = Loaded(store, "shared", 5_000, vectors, dimensions)
    medium = Loaded(store, "medium", 10_000, vectors, dimensions)
    large = Loaded(store, "large", passages, vectors, dimensions)
    for one, count in ((medium, 10_000), (large, passages)):
        print(
            f"{count:>7} passages, {dimensions} dimensions: written at {count / one.load_s:,.0f}/s, "
            f"indexed at {count / one.index_s:,.0f}/s ({one.index_s:.1f} s)"
        )
    queries = vectors.draw(60)
    for one, count in ((medium, 10_000), (large, passages)):
        one.search(queries[0]), one.exact(queries[0])
        exact, index = times_ms(one.exact, queries[:20]), times_ms(one.search, queries)
        print(
            f"{count:>7} passages: exact {exact[0]:.1f}/{exact[1]:.1f} ms, HNSW {index[0]:.1f}/{index[1]:.1f} ms "
            f"(p50/p95): {exact[0] / index[0]:.1f} times as fast, recall@{TOP} {recall(one, queries):.3f}"
        )
    exact = times_ms(shared.search, queries)
    print(f"   5000 passages in the shared table: exact {exact[0]:.1f}/{exact[1]:.1f} ms")

    lease = large.acquire()
    _, _, switch_s = large.embed(lease, "n", 1)
    print(f"the switch away from {passages} passages: {1000 * switch_s:.1f} ms (one UPDATE, and the pass's record)")
    searchers = [Searcher(shared), Searcher(medium)]
    with searchers[0].running(), searchers[1].running():
        time.sleep(4)
        started = time.perf_counter()
        assert store.generations.drop_unused(large.collection.key) == 1
        ended = time.perf_counter()
        time.sleep(1)
    print(f"drop of {passages} passages: {ended - started:.3f} s (less than {DROP_MAX_S:g} s is asked for)")
    for searcher, what in zip(searchers, ("exact, shared table", "HNSW, own table"), strict=True):
        before, during = searcher.between(0, started - 0.001), searcher.between(started, ended)
        (p50, p95), (d50, d95) = percentiles(before), percentiles(during)
        print(
            f"searches of another collection ({what}): before {p50:.1f}/{p95:.1f} ms ({len(before)}), "
            f"during the drop {d50:.1f}/{d95:.1f} ms ({len(during)}): {d50 / p50:.2f} and {d95 / p95:.2f} times, "
            f"longest {max(during):.1f} ms against {max(before):.1f} ms"
        )
    store.close()
    return ended - started


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
