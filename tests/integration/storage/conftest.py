"""One collection driven through the store's own methods, so that a test can stop between any two steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from knowledge_worker.domain.chunk import Chunk
from knowledge_worker.domain.collection import ChunkStorage, Collection, Generation
from knowledge_worker.domain.document import checked_document
from knowledge_worker.domain.limits import Limits
from knowledge_worker.domain.passes import PassCounts, PassTrigger
from knowledge_worker.indexing.embed import text_hash
from knowledge_worker.ports import Vectors
from knowledge_worker.store.postgres import PostgresStore
from knowledge_worker.store.protocol import (
    ClaimedDocument,
    DeclaredCollection,
    EmbeddedChunk,
    Guard,
    Hit,
    Lease,
    SearchQuery,
    SearchTarget,
    SettledDocument,
    Success,
)
from knowledge_worker.testing.hash_embedding import hash_vectors

from ..passes.conftest import clock, locks, make  # noqa: F401 - fixtures

DIMENSIONS = 64
Embed = Callable[[Sequence[str]], Vectors]


class Index:
    """A collection whose documents are one passage each.

    Attributes:
        expected: document → text, what must be found.
    """

    def __init__(self, store: PostgresStore, name: str = "docs") -> None:
        self.store = store
        self.name = name
        self.expected: dict[str, str] = {}
        self._holders = 0
        self.embed: Embed = lambda texts: hash_vectors(texts, DIMENSIONS)
        store.collections.ensure_declared(
            DeclaredCollection(
                name=name,
                title=None,
                description=None,
                model="m",
                trusted=True,
                resync_ms=None,
                fingerprint="f",
            )
        )

    @property
    def collection(self) -> Collection:
        found = self.store.collections.find(self.name)
        assert found is not None
        return found

    @property
    def serving(self) -> Generation:
        serving = self.collection.serving
        assert serving is not None
        return serving

    def acquire(self) -> Lease:
        """Take the lease as the next worker does, whoever held it."""
        with self.store.database.transaction() as tx:
            tx.run("update collections set holder = null, retry_at = null where name = :name", name=self.name)
        self.store.leases.request(self.name, trigger=PassTrigger.REQUEST, force=True, confirm_deletes=False)
        self._holders += 1
        lease = self.store.leases.acquire(self.collection.key, holder=f"worker {self._holders}", declaration="f")
        assert lease is not None
        return lease

    def begin(self, lease: Lease, model: str = "m") -> Generation:
        """The generation a pass writes to."""
        collection = self.collection
        keep = collection.building is not None and collection.building.model == model
        self.store.generations.drop_others(lease.guard, keep_building=keep)
        collection = self.collection
        for one in (collection.building, collection.serving):
            if one is not None and one.model == model:
                return one
        return self.store.generations.begin(lease.guard, model=model, dimensions=DIMENSIONS, chunker="c")

    def put(self, guard: Guard, **texts: str) -> None:
        """Store documents as a read of the sources does; they wait to be embedded."""
        documents = [checked_document({"id": one, "content": text}) for one, text in texts.items()]
        with self.store.documents.reading(guard) as reading:
            reading.store("o", documents, kept_owners=frozenset())
        self.expected |= texts

    def delete_others(self, guard: Guard, *kept: str) -> None:
        """A complete read that sees only ``kept``."""
        with self.store.documents.reading(guard) as reading:
            reading.store(
                "o",
                [checked_document({"id": one, "content": self.expected[one]}) for one in kept],
                kept_owners=frozenset(),
            )
            reading.delete_vanished()
        self.expected = {one: self.expected[one] for one in kept}

    def claim(self, guard: Guard, generation: Generation, limit: int = 50) -> list[ClaimedDocument]:
        return self.store.documents.claim(
            guard, generation, token=guard.holder, limit=limit, max_chars=10**9, alone=False
        )

    def settle(self, guard: Guard, generation: Generation, claimed: Sequence[ClaimedDocument]) -> None:
        vectors = self.embed([one.content for one in claimed])
        settled = [
            SettledDocument(
                document=document,
                chunks=[EmbeddedChunk(chunk=whole(document.content), text_hash=text_hash(document.content))],
                vectors=vectors[number : number + 1],
            )
            for number, document in enumerate(claimed)
        ]
        self.store.generations.settle(guard, generation, settled, token=guard.holder, pass_id=1, work=PassCounts())

    def write(self, guard: Guard, generation: Generation) -> None:
        """Embed everything that waits."""
        while claimed := self.claim(guard, generation):
            self.settle(guard, generation, claimed)

    def fit(self, guard: Guard, generation: Generation) -> None:
        self.store.generations.fit_storage(guard, generation, check=lambda: None, progress=lambda: None)

    def end(self, lease: Lease, generation: Generation) -> bool:
        """End the pass, switching when needed, and drop what is unused."""
        serving = self.collection.serving
        switch = generation.id if serving is None or serving.id != generation.id else None
        ended = self.store.leases.succeed(lease, Success(switch_to=switch))
        if ended:
            self.store.generations.drop_unused(lease.guard.key)
        return ended

    def run(self, model: str = "m", **texts: str) -> None:
        """A whole pass that adds or changes documents."""
        lease = self.acquire()
        generation = self.begin(lease, model)
        self.put(lease.guard, **texts)
        self.write(lease.guard, generation)
        self.fit(lease.guard, generation)
        assert self.end(lease, generation)

    def search(self, query: str, limit: int) -> list[Hit]:
        """A search as :class:`~knowledge_worker.service.searching.Searching` makes it."""
        vector = self.embed([query])[0]
        for _ in range(5):
            collection = self.store.chunks.targets([self.name])[self.name]
            assert collection.serving is not None
            target = SearchTarget(key=collection.key, name=self.name, trusted=True, generation=collection.serving)
            matches = self.store.chunks.search(
                [target],
                SearchQuery(vector=vector, words=None, limit=limit, candidates=limit, per_document=limit),
            )
            if matches is not None:
                return matches
        raise AssertionError("the collection changed five times during one search")

    def found(self) -> dict[str, str]:
        """Everything a search can find; fails when anything is found twice."""
        matches = self.search("all", 5000)
        texts = {match.document: match.text for match in matches}
        assert len(texts) == len(matches), "a passage was found twice"
        return texts

    def check(self, storage: ChunkStorage) -> None:
        """What is searched, counted and stored agrees, and nothing is left over."""
        assert self.found() == self.expected
        serving = self.serving
        assert serving.storage is storage
        assert self.collection.chunks == len(self.expected)
        assert self.tables() == ([f"chunks_{serving.id}"] if storage is ChunkStorage.OWN else [])
        with self.store.database.transaction() as tx:
            assert tx.value("select count(*) from chunk_changes") == 0
            assert tx.value("select count(*) from generations where step is not null") == 0
            shared = tx.value("select count(*) from chunks")
            assert shared == (0 if storage is ChunkStorage.OWN else len(self.expected))
            if storage is ChunkStorage.OWN:
                assert tx.value(f"select count(*) from chunks_{serving.id}") == len(self.expected)

    def tables(self) -> list[str]:
        with self.store.database.transaction() as tx:
            rows = tx.rows("select relname from pg_class where relkind = 'r' and relname ~ '^chunks_[0-9]' order by 1")
        return [row["relname"] for row in rows]

    @contextmanager
    def searched(self) -> Iterator[list[int]]:
        """Search all the time; the ``zebra`` documents must be found, all of them, once each, whatever happens."""
        known = {one: text for one, text in self.expected.items() if "zebra" in text}
        assert known
        failures: list[BaseException] = []
        counted = [0]
        stop = threading.Event()

        def run() -> None:
            try:
                while not stop.is_set():
                    for limit in (len(known), 5000):
                        matches = self.search("zebra stripes", limit)
                        found = [match.document for match in matches if "zebra" in match.text]
                        assert sorted(found) == sorted(known), f"limit {limit}"
                        assert len({match.document for match in matches}) == len(matches)
                    counted[0] += 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield counted
            before = counted[0]
            until = time.monotonic() + 30
            while counted[0] < before + 4 and not failures and time.monotonic() < until:
                time.sleep(0.01)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]
        assert counted[0] > 4


@pytest.fixture
def limits() -> Limits:
    """Own tables from 51 passages on, the shared one again below 20."""
    return Limits(own_table_chunks=50, shared_table_chunks=20)


@pytest.fixture
def small_store(database_url: str, limits: Limits) -> Iterator[PostgresStore]:
    store = PostgresStore(database_url, limits=limits)
    yield store
    store.close()


@pytest.fixture
def index(small_store: PostgresStore) -> Index:
    return Index(small_store)


def whole(text: str) -> Chunk:
    """A text as its only passage."""
    return Chunk(index=0, text=text, section=(), line_start=1, line_end=1, start=0, end=len(text))


def numbered(start: int, stop: int, word: str = "plain") -> dict[str, str]:
    """Documents ``d<n>`` of one passage each."""
    return {f"d{n}": f"{word} text of document {n}" for n in range(start, stop)}


def zebras(count: int = 10) -> dict[str, str]:
    """Documents that a search for zebra stripes finds first."""
    return {f"z{n}": f"zebra stripes {n}" for n in range(count)}
