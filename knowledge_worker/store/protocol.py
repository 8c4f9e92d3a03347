"""What a store promises. PostgreSQL keeps it; another implementation would keep the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from knowledge_worker.domain.chunk import Chunk
from knowledge_worker.domain.collection import Collection, CollectionKind, Generation
from knowledge_worker.domain.document import CheckedDocument, FailedDocument
from knowledge_worker.domain.filters import Filters
from knowledge_worker.domain.language import SIMPLE
from knowledge_worker.domain.passes import PassCounts, PassRecord, PassTrigger
from knowledge_worker.domain.ranking import CANDIDATES, Fusion
from knowledge_worker.domain.vitals import CollectionVitals, DocumentVitals, Pulse
from knowledge_worker.ports import Vectors
from knowledge_worker.store.managed import ManagedStore


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCollection:
    """What a process's code says about a collection, reduced to what the store keeps.

    Attributes:
        fingerprint: differs when the declaration differs.
    """

    name: str
    title: str | None
    description: str | None
    model: str
    language: str = SIMPLE
    trusted: bool
    resync_ms: int | None
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What every write of a pass compares before it writes.

    Attributes:
        helper: of a helper, whose claims protect what it writes: work in flight is not lost when the lease changes
            hands. Claiming more still needs the fence.
    """

    key: int
    fence: int
    holder: str
    helper: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A collection that this worker owns for a while.

    Attributes:
        target: requests up to this number are answered by the pass.
        deletes_confirmed: someone allowed deletions beyond the guard.
        forced: someone asked not to wait for the backoff, and to try failed documents again.
    """

    guard: Guard
    name: str
    kind: CollectionKind
    pass_id: int
    target: int
    trigger: PassTrigger
    deletes_confirmed: bool
    forced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperTicket:
    """Leave to help the holder of a lease with embedding."""

    guard: Guard
    pass_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a pass failed.

    Attributes:
        retry_after_ms: the next attempt is not before it.
        permanent: a configuration error: nothing is tried again until the collection is declared anew.
        reasons: why the read was incomplete, where that made it fail.
    """

    message: str
    retry_after_ms: int | None = None
    permanent: bool = False
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """How a pass ended well.

    Attributes:
        switch_to: the generation that is served from now on, None to keep the present one.
        incomplete: why not everything could be read.
        notice: what waits for a person.
    """

    switch_to: int | None = None
    incomplete: tuple[str, ...] = ()
    notice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What a tick found: collections to look at, and those whose lease ran out."""

    names: tuple[str, ...]
    reaped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """What is compared of a stored document.

    Attributes:
        key: surrogate key.
        settled: whether nothing of it waits to be embedded in the generation that was asked about.
    """

    key: int
    hash: str
    details_hash: str
    metadata_hash: str
    owner: str | None
    settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedDocument:
    """A document that waits to be embedded and is this worker's for a while.

    Attributes:
        id: surrogate key.
        version: rises with every change of content, title or source.
        deaths: workers that vanished while they had it.
    """

    id: int
    document_id: str
    version: int
    content: str
    title: str | None
    source: str | None
    deaths: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedChunk:
    """A chunk with its text's hash (16 bytes)."""

    chunk: Chunk
    text_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledDocument:
    """What became of a claimed document.

    Attributes:
        vectors: float32, one row a chunk.
        error: why it failed; then there are no chunks.
        reused: how many of the vectors were there before.
    """

    document: ClaimedDocument
    chunks: Sequence[EmbeddedChunk] = ()
    vectors: Vectors | None = None
    error: str | None = None
    reused: int = 0


@dataclass(slots=True, kw_only=True)
class Work:
    """What a step did, added to the record of its pass."""

    counts: PassCounts = field(default_factory=PassCounts)
    reports: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What the comparison of some documents with the stored ones found.

    Attributes:
        repeated: ids that the same source yielded before in this read; those documents were left out.
    """

    counts: PassCounts
    repeated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTarget:
    """A collection as a search found it; the search answers again when any of this changed meanwhile."""

    key: int
    name: str
    trusted: bool
    generation: Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """What a search compares with.

    Attributes:
        vector: of the query, for the semantic leg; None leaves the leg out.
        words: the query as :func:`~knowledge_worker.chunking.words.searchable_query` gives it, for the lexical leg;
            None leaves the leg out. At least one of the two is there.
        limit: hits to return.
        candidates: that each leg contributes.
        per_document: hits of one document that come before those of others run out.
        documents: so many different ones are looked for, further than the candidates when these are of fewer.
        min_score: cosine similarity that a hit has at least; needs the semantic leg.
    """

    vector: Vectors | None
    words: str | None
    limit: int
    per_document: int
    documents: int = 1
    candidates: int = CANDIDATES
    fusion: Fusion = field(default_factory=Fusion)
    min_score: float | None = None
    filters: Filters = field(default_factory=Filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that a search found.

    Attributes:
        score: cosine, BM25 or both fused, as the legs of the query have it.
        span: offsets of its first character and behind its last one in the document, in code points.
        beyond: enough passages of its document are better.
        cosine, bm25: of the legs that found it; ``semantic_place`` and ``lexical_place`` are its ranks there, from 1.
    """

    collection: str
    document: str
    index: int
    text: str
    score: float
    title: str | None
    source: str | None
    section: tuple[str, ...]
    lines: tuple[int, int]
    span: tuple[int, int]
    trusted: bool
    beyond: bool
    cosine: float | None
    semantic_place: int | None
    bm25: float | None
    lexical_place: int | None


class CollectionStore(Protocol):
    """Collections and their declarations."""

    def list_all(self) -> list[Collection]:
        """Every collection by name, with counts."""
        ...

    def find(self, name: str, *, counts: bool = True) -> Collection | None:
        """One collection; without ``counts`` it costs one row."""
        ...

    def ensure_declared(self, declared: DeclaredCollection) -> None:
        """Store a declared collection that has no row yet; leaves others as they are."""
        ...

    def node_started(
        self, node: str, *, queues: Sequence[str], declared: Sequence[DeclaredCollection], age_ms: int, alive_ms: int
    ) -> list[str]:
        """Register a worker: take up its declarations, mark what nobody declares as orphaned, ask for start passes.

        Args:
            age_ms: how long ago the process started; a pass of the same declaration begun since then is enough.
            alive_ms: a node not seen for so long is gone.

        Returns:
            The collections for which a pass was asked.
        """
        ...

    def node_alive(
        self, node: str, *, queues: Sequence[str], declared: Sequence[DeclaredCollection], alive_ms: int
    ) -> list[str]:
        """The heartbeat; takes declarations up again when the nodes that overruled them are gone."""
        ...

    def node_stopped(self, node: str) -> None:
        """Forget a worker that leaves in order."""
        ...


class LeaseStore(Protocol):
    """Requests, what is due, leases and how passes end."""

    def request(
        self, name: str, *, trigger: PassTrigger, force: bool, confirm_deletes: bool, managed_model: str | None = None
    ) -> int:
        """Ask for a pass, durably; the number of the request.

        Args:
            managed_model: what a managed collection is embedded with from now on; None leaves it as it is.

        Raises:
            CollectionNotFoundError: no such row.
            CollectionNotIndexedError: a configuration error ended it, or it is orphaned.
        """
        ...

    def tick(self) -> Due:
        """Reap leases that ran out and find what is due; any number of ticks do no more than one."""
        ...

    def is_due(self, key: int) -> bool:
        """Whether a pass may begin now and nobody runs one."""
        ...

    def acquire(self, key: int, *, holder: str, declaration: str | None) -> Lease | None:
        """Take the lease and the next fence, if a pass is due, nobody has it and the declaration is the current one."""
        ...

    def renew(self, guard: Guard, *, claim_token: str) -> bool:
        """Prolong lease and claims; False when the lease is lost."""
        ...

    def renew_claims(self, key: int, *, claim_token: str) -> None:
        """Prolong the claims of a helper."""
        ...

    def open_helpers(self, guard: Guard) -> None:
        """Let helpers join: the provider has answered once."""
        ...

    def join(self, name: str) -> HelperTicket | None:
        """Leave to help, None when nobody wants any."""
        ...

    def report_helper_failure(self, guard: Guard, failure: Failure) -> None:
        """Tell the holder that the provider failed a helper, and keep other helpers from trying."""
        ...

    def helper_failure(self, guard: Guard) -> Failure | None:
        """What a helper reported."""
        ...

    def succeed(self, lease: Lease, success: Success) -> bool:
        """End the pass well, switching if asked.

        Returns:
            False when documents came in that the switch would leave behind, or their number asks for an index first.
        """
        ...

    def fail(self, lease: Lease, failure: Failure, *, claim_token: str) -> None:
        """End the pass with an error and the time of the next attempt."""
        ...

    def give_up(self, lease: Lease, *, claim_token: str, reason: str) -> None:
        """End the pass because this worker stops; the request stays."""
        ...

    def release_claims(self, key: int, *, claim_token: str) -> None:
        """Hand claimed documents back."""
        ...


class DocumentStore(Protocol):
    """Documents: what a pass compares and stores, and what waits to be embedded."""

    def retry_failed(self, guard: Guard) -> int:
        """Let every failed document wait to be embedded again."""
        ...

    def reading(self, guard: Guard) -> AbstractContextManager[Reading]:
        """Compare a read with what is stored."""
        ...

    def claim(
        self, guard: Guard, generation: Generation, *, token: str, limit: int, max_chars: int, alone: bool
    ) -> list[ClaimedDocument]:
        """Take documents that wait and that nobody has, oldest first; nothing once the guard does not hold any more.

        Args:
            max_chars: stop adding documents when their contents exceed this together.
            alone: take one that a worker vanished with, instead of those that never gave trouble.
        """
        ...

    def stored(self, key: int, generation: Generation | None, ids: Sequence[str]) -> Mapping[str, StoredDocument]:
        """What is stored under some ids; None asks about a generation that is yet to begin."""
        ...

    def waiting(self, key: int, generation: Generation | None, *, after: int, limit: int) -> list[ClaimedDocument]:
        """Documents that wait to be embedded, by key, without claiming them."""
        ...

    def list_failed(self, name: str, *, limit: int) -> list[FailedDocument]:
        """Documents that could not be embedded, by id."""
        ...

    def count(self, key: int) -> int:
        """All documents of a collection."""
        ...

    def unsettled(self, key: int, generation: Generation) -> int:
        """How many documents still wait or are being embedded by someone."""
        ...


class Reading(Protocol):
    """One read of the sources, compared batch by batch; ids are remembered in the database, not in memory."""

    def store(self, owner: str, documents: Sequence[CheckedDocument], *, kept_owners: frozenset[str]) -> Compared:
        """Store what is new or changed in some documents of one source, under the guard.

        Args:
            owner: the source; one source's documents are stored before the next one's.
            kept_owners: earlier sources whose read was incomplete: their documents are not taken over.
        """
        ...

    def vanished(self) -> tuple[int, int]:
        """How many documents were there before the read, and how many of them it has not seen."""
        ...

    def delete_vanished(self) -> int:
        """Delete those, with their chunks, in one transaction."""
        ...


class GenerationStore(Protocol):
    """Generations and their chunks."""

    def begin(
        self, guard: Guard, *, model: str, dimensions: int | None, chunker: str, language: str = SIMPLE
    ) -> Generation:
        """Start the next generation of a collection."""
        ...

    def drop_others(self, guard: Guard, *, keep_building: bool) -> int:
        """Delete every generation that is neither served nor (``keep_building``) being written."""
        ...

    def drop_unused(self, key: int) -> int:
        """Delete every generation that is neither served nor being written; safe at any time."""
        ...

    def kept_vectors(
        self, generation: Generation, documents: Sequence[ClaimedDocument]
    ) -> Mapping[int, Mapping[bytes, Vectors]]:
        """Vectors that documents have already: document key → text hash → vector.

        In this generation, or in the one that is served when the same model made it: then only words or cuts differ.
        """
        ...

    def kept_hashes(self, generation: Generation, keys: Sequence[int]) -> Mapping[int, frozenset[bytes]]:
        """Hashes of the texts that :meth:`kept_vectors` would find vectors for: document key → hashes."""
        ...

    def fit_storage(
        self, guard: Guard, generation: Generation, *, check: Callable[[], None], progress: Callable[[], None]
    ) -> None:
        """Give a generation the table, the indexes and the word counts its size asks for.

        Done before it is served and after it changed.

        May take minutes; searches and writes go on meanwhile.

        Args:
            check: called now and then; raises when the work must stop, which loses nothing but time.
            progress: called whenever something moved.

        Raises:
            LeaseLostError: the guard does not hold, or the generation is gone.
            ServiceUnavailableError: the server could not do it.
        """
        ...

    def settle(
        self,
        guard: Guard,
        generation: Generation,
        settled: Sequence[SettledDocument],
        *,
        token: str,
        pass_id: int,
        work: PassCounts,
    ) -> int:
        """Store chunks and statuses in one transaction, for those documents whose claim and version still hold.

        Returns:
            How many held.

        Raises:
            LeaseLostError: the guard does not hold, or the generation is gone.
            EmbeddingUnavailableError: the vectors have another number of dimensions than the generation.
        """
        ...


class PassStore(Protocol):
    """Records of passes."""

    def add(self, pass_id: int, work: Work) -> None:
        """Add what a step did."""
        ...

    def list_newest(self, name: str, *, limit: int) -> list[PassRecord]:
        """The last passes of a collection, newest first."""
        ...

    def counts(self, pass_id: int) -> PassCounts:
        """What a pass did so far."""
        ...


class ChunkStore(Protocol):
    """The search."""

    def targets(self, names: Sequence[str] | None) -> Mapping[str, Collection]:
        """Collections by name (all for None), without counts."""
        ...

    def search(self, targets: Sequence[SearchTarget], query: SearchQuery) -> list[Hit] | None:
        """The best passages of collections that are served by one model, in one statement.

        Returns:
            Hits, best first; None when a target is no longer as described (then resolve again).
        """
        ...


class Health(Protocol):
    """Whether the store can be used."""

    def problems(self) -> list[str]:
        """What is missing, one line each."""
        ...

    def pulse(self, *, alive_ms: int) -> Pulse:
        """The last tick, stuck claims and living workers: one quick statement.

        Args:
            alive_ms: a worker that was not seen for so long is dead.
        """
        ...

    def collections(self, *, most: int, others: str) -> list[CollectionVitals]:
        """How every collection is doing, without its documents: one quick statement.

        Args:
            most: so many are told apart, declared ones first.
            others: the name that stands for the rest together.
        """
        ...

    def documents(self, *, most: int, others: str) -> list[DocumentVitals]:
        """The documents of the same collections by status.

        Raises:
            ServiceUnavailableError: counting them took too long.
        """
        ...

    def passages(self, *, most: int, others: str) -> dict[str, int]:
        """The passages that searches of the same collections look at; of large ones PostgreSQL's estimate.

        Raises:
            ServiceUnavailableError: counting them took too long.
        """
        ...


class Store(Protocol):
    """Everything that must not be lost."""

    @property
    def collections(self) -> CollectionStore: ...
    @property
    def leases(self) -> LeaseStore: ...
    @property
    def documents(self) -> DocumentStore: ...
    @property
    def managed(self) -> ManagedStore: ...
    @property
    def generations(self) -> GenerationStore: ...
    @property
    def passes(self) -> PassStore: ...
    @property
    def chunks(self) -> ChunkStore: ...
    @property
    def health(self) -> Health: ...

    def migrate(self) -> str:
        """Bring the store to this version's schema; the revision."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...
