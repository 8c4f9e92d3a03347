"""The front door: declarations, and everything one can ask for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import structlog
from celery import Celery

from knowledge_worker.config import Settings, load_settings
from knowledge_worker.declarations import KnowledgeCollection, check_declarations
from knowledge_worker.domain.collection import Collection, CollectionKind, CollectionStatus
from knowledge_worker.domain.document import Document, DocumentInput, DocumentPage, FailedDocument, PutResult
from knowledge_worker.domain.language import SIMPLE
from knowledge_worker.domain.limits import LIST_DEFAULT, PER_DOCUMENT_DEFAULT, RESULTS_DEFAULT
from knowledge_worker.domain.match import SearchResult
from knowledge_worker.domain.names import collection_name
from knowledge_worker.domain.passes import PassRecord, PassTrigger
from knowledge_worker.domain.plan import Plan
from knowledge_worker.domain.vitals import Pulse
from knowledge_worker.errors import (
    CollectionNotFoundError,
    CollectionNotIndexedError,
    ConfigurationError,
    KnowledgeError,
    ServiceUnavailableError,
)
from knowledge_worker.indexing.plan import plan_step
from knowledge_worker.ports import Clock, EmbeddingModel, Locks, ModelResolver, Observer, RateLimiter, WorkQueue
from knowledge_worker.redis_server import check_server as check_redis
from knowledge_worker.store.postgres.database import check_server as check_database
from knowledge_worker.store.protocol import Store
from knowledge_worker.wiring import (
    ALIVE_TICKS,
    Measuring,
    Overrides,
    Parts,
    broker_problems,
    build,
    database_url,
    measuring,
    redis_url,
)

log = structlog.get_logger()

_WAIT_POLL_S = 0.2


class Knowledge:
    """The collections of an application, and what can be done with them.

    Declaring costs nothing: servers are connected to when something is first asked for.

    Args:
        collections: declared in code; names are unique.
        embedding_model: the one default model of managed collections; ``KNOWLEDGE_MODEL`` wins over it.
        settings: read from the environment when not given.
        store, locks, queue, limiter, models, clock: replace the parts that the settings name.

    Raises:
        ConfigurationError: a name is declared twice.
    """

    def __init__(
        self,
        collections: Sequence[KnowledgeCollection] = (),
        embedding_model: str | EmbeddingModel | None = None,
        *,
        settings: Settings | None = None,
        store: Store | None = None,
        locks: Locks | None = None,
        queue: WorkQueue | None = None,
        limiter: RateLimiter | None = None,
        models: ModelResolver | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._made_at = time.monotonic()
        check_declarations(collections)
        self.declared = tuple(collections)
        self._embedding_model = embedding_model
        self._settings = settings
        self._overrides = Overrides(store=store, locks=locks, queue=queue, limiter=limiter, models=models, clock=clock)
        self._stop = threading.Event()
        self._making = threading.Lock()
        self._made: Parts | None = None
        self._measuring: Measuring | None = None

    # What one can ask for

    @property
    def settings(self) -> Settings:
        """Everything an operator can set."""
        if self._settings is None:
            self._settings = load_settings()
        return self._settings

    def with_settings(self, settings: Settings, *more: KnowledgeCollection) -> Knowledge:
        """The same declarations, and ``more``, under other settings; nothing may have been asked for yet."""
        return Knowledge(
            [*self.declared, *more],
            self._embedding_model,
            settings=settings,
            store=self._overrides.store,
            locks=self._overrides.locks,
            queue=self._overrides.queue,
            limiter=self._overrides.limiter,
            models=self._overrides.models,
            clock=self._overrides.clock,
        )

    def collections(self) -> list[Collection]:
        """Every collection by name: stored ones, and declared ones that no worker has taken up yet."""
        parts = self._parts
        stored = {one.name: parts.managed.seen_here(one) for one in parts.store.collections.list_all()}
        missing = {one.name: _not_stored(one) for one in self.declared if one.name not in stored}
        return [one for _, one in sorted({**stored, **missing}.items())]

    def collection(self, name: str) -> Collection:
        """One collection.

        Raises:
            CollectionNotFoundError: neither stored nor declared.
        """
        parts = self._parts
        found = parts.store.collections.find(collection_name(name))
        if found is not None:
            return parts.managed.seen_here(found)
        for one in self.declared:
            if one.name == name:
                return _not_stored(one)
        raise CollectionNotFoundError(name)

    def look_up(self, names: Iterable[str]) -> dict[str, Collection]:
        """The named collections as searches from here see them: one quick query, no counts of documents.

        Returns:
            By name, without those that are neither stored nor declared. ``trusted`` is what a search says of matches:
            a declaration that is not trusted acts at once; one that no worker took up yet says it for itself.
        """
        parts = self._parts
        declared = {one.name: one for one in self.declared}
        wanted = [collection_name(name) for name in names]
        stored = parts.store.chunks.targets(wanted)
        found: dict[str, Collection] = {}
        for name in wanted:
            mine = declared.get(name)
            if name in stored:
                one = parts.managed.seen_here(stored[name])
                here: dict[str, object] = {} if mine is None else {"trusted": one.trusted and mine.trusted}
                if mine is not None and one.stored_status is CollectionStatus.ORPHANED:
                    here["stored_status"] = CollectionStatus.READY  # our own declaration beats the mark (rule 38)
                found[name] = one.model_copy(update=here)
            elif mine is not None:
                found[name] = _not_stored(mine).model_copy(update={"trusted": mine.trusted})
        return found

    def sync(self, name: str, *, force: bool = False, confirm_deletes: bool = False) -> int:
        """Ask for a pass; the request is stored before this returns and survives the loss of any process.

        A managed collection has no sources: what is pending is embedded, and when the default model is another one
        by now, everything is embedded again with that.

        Args:
            force: do not wait for the backoff, and try failed documents again.
            confirm_deletes: allow the deletions that ``max_delete_ratio`` holds back.

        Returns:
            The number of the request, for :meth:`wait`.

        Raises:
            CollectionNotFoundError: no such collection.
            CollectionNotIndexedError: a configuration error ended it, or no code declares it any more.
        """
        parts = self._parts
        collection_name(name)
        for one in parts.declared:
            if one.name == name:
                parts.store.collections.ensure_declared(one)
        request = parts.store.leases.request(
            name,
            trigger=PassTrigger.REQUEST,
            force=force,
            confirm_deletes=confirm_deletes,
            managed_model=parts.models.default_id,
        )
        parts.queue.nudge_sync(name)
        return request

    def wait(
        self,
        name: str,
        request: int,
        *,
        timeout_ms: int | None = None,
        on_progress: Callable[[Collection], None] | None = None,
    ) -> Collection:
        """Block until a request is answered: its pass succeeded, or failed and comes back on the backoff.

        Returns:
            The collection as it is then; its ``error`` tells how it went.

        Raises:
            ServiceUnavailableError: not answered within ``timeout_ms``.
        """
        until = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while True:
            collection = self.collection(name)
            if on_progress is not None:
                on_progress(collection)
            if collection.done >= request or collection.broken:
                return collection
            if until is not None and time.monotonic() > until:
                raise ServiceUnavailableError(
                    f'The sync of "{name}" was accepted but is not done yet; see: knowledge-worker status'
                )
            time.sleep(_WAIT_POLL_S)

    def passes(self, name: str, *, limit: int = 20) -> list[PassRecord]:
        """The last passes of a collection, newest first.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        self.collection(name)
        return self._parts.store.passes.list_newest(name, limit=limit)

    def failed_documents(self, name: str, *, limit: int = 20) -> list[FailedDocument]:
        """Documents that could not be embedded and why, by id; ``sync(name, force=True)`` tries them again.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        self.collection(name)
        return self._parts.store.documents.list_failed(name, limit=limit)

    def create_collection(
        self, name: str, *, title: str | None = None, description: str | None = None, language: str = SIMPLE
    ) -> Collection:
        """Create a managed collection: empty, untrusted, embedded with the default model.

        Args:
            title: at most 1000 characters.
            description: at most 2000 characters.
            language: whose stems and stop words the search by words knows; ``simple`` takes words as they are.

        Raises:
            InvalidInputError: no name for a collection, or no such language.
            CollectionDeclaredError: the code declares this name.
            CollectionExistsError: a stored collection, orphaned ones included, has this name.
            NoDefaultModelError: neither KNOWLEDGE_MODEL nor ``embedding_model`` is set, or it cannot be used here.
        """
        self._parts.managed.create(name, title=title, description=description, language=language)
        return self.collection(name)

    def delete_collection(self, name: str) -> None:
        """Delete a managed or an orphaned collection with everything in it; work in flight writes nothing more.

        Raises:
            CollectionNotFoundError: no such collection.
            CollectionDeclaredError: code declares it.
        """
        self._parts.managed.delete(name)

    def put_document(
        self,
        collection: str,
        id: str,  # noqa: A002 - what it is called everywhere else
        content: str,
        *,
        title: str | None = None,
        source: str | None = None,
        metadata: Mapping[str, object] | None = None,
        precondition: Callable[[Document | None], None] | None = None,
    ) -> PutResult:
        """Put a document into a managed collection: new, or in place of the one with this id.

        Content, title or source that differ from what is stored are embedded in the background; until then the
        passages of the previous content are found. A document that failed is tried again.

        Args:
            id: 1 to 255 characters.
            content: 1 to 1 048 576 characters.
            title, source: at most 1000 characters; cut there, with a warning.
            precondition: called with the stored document, without its content, or None, while nobody else can
                change it; raises to refuse the write.

        Raises:
            InvalidInputError: a value breaks a rule; ``field`` names it.
            CollectionNotFoundError: no such collection.
            CollectionNotManagedError: its documents come from sources.
        """
        document = DocumentInput(id=id, content=content, title=title, source=source, metadata=metadata)
        return self._parts.documents.put(collection, document, precondition=precondition)

    def put_documents(
        self, collection: str, documents: Iterable[DocumentInput | Mapping[str, object]]
    ) -> Iterator[PutResult | KnowledgeError]:
        """Put many documents; memory does not grow with their number.

        Returns:
            What became of each, in the same order: a result, or why it was refused. Nothing is stored of a document
            before its result is taken.

        Raises:
            CollectionNotFoundError: no such collection.
            CollectionNotManagedError: its documents come from sources.
        """
        return self._parts.documents.put_all(collection, documents)

    def get_document(self, collection: str, id: str) -> Document:  # noqa: A002
        """One document with its content.

        Raises:
            InvalidInputError: no id that a document can have.
            CollectionNotFoundError, DocumentNotFoundError: it is not there.
        """
        return self._parts.documents.get(collection, id)

    def list_documents(
        self, collection: str, *, status: str | None = None, limit: int = LIST_DEFAULT, offset: int = 0
    ) -> DocumentPage:
        """Some documents by id, without their content, and how many there are.

        Args:
            status: ``pending``, ``ready`` or ``failed``; None lists all.
            limit: at least 1; above 100 it is 100.

        Raises:
            InvalidInputError: a value breaks a rule.
            CollectionNotFoundError: no such collection.
        """
        return self._parts.documents.page(collection, status=status, limit=limit, offset=offset)

    def delete_document(
        self,
        collection: str,
        id: str,  # noqa: A002
        *,
        precondition: Callable[[Document | None], None] | None = None,
    ) -> None:
        """Delete a document of a managed collection; it is gone from the next search and stays deleted.

        Raises:
            InvalidInputError: no id that a document can have.
            CollectionNotFoundError, DocumentNotFoundError: it is not there.
            CollectionNotManagedError: its documents come from sources.
        """
        self._parts.documents.delete(collection, id, precondition=precondition)

    def search(
        self,
        query: str,
        *,
        collections: Iterable[str] | str | None = None,
        top_k: int = RESULTS_DEFAULT,
        min_score: float | None = None,
        mode: str | None = None,
        filters: Mapping[str, object] | None = None,
        per_document: int = PER_DOCUMENT_DEFAULT,
        explain: bool = False,
    ) -> SearchResult:
        """Find the best passages.

        Args:
            query: 1 to 1000 characters.
            collections: names; None searches all that can be searched.
            top_k: 1 to 20 matches.
            min_score: cosine similarity that a match has at least; without a mode it makes the search semantic.
            mode: ``semantic`` (by meaning), ``lexical`` (by words) or ``hybrid`` (by both, the default). When the
                model cannot be reached a hybrid search goes by words alone, and the result says so.
            filters: of the documents: ``{"metadata": {"team": "support", "year": {"gte": 2020}}, "id_prefix": "docs/",
                "source": "…"}``; a condition is a value, a list of values (any of them) or ``exists``, ``gt``,
                ``gte``, ``lt``, ``lte``.
            per_document: matches of one document that come before those of others run out, 1 to 20.
            explain: whether each match says its rank and score in each leg.

        Raises:
            InvalidInputError: a value breaks a rule; ``field`` names it.
            CollectionNotFoundError: a named collection is unknown and no other is left.
            NotSearchableError: nothing that was asked for can be searched now.
            EmbeddingError: the query did not become a vector.
        """
        return self._parts.searching.search(
            query,
            collections=collections,
            top_k=top_k,
            min_score=min_score,
            mode=mode,
            filters=filters,
            per_document=per_document,
            explain=explain,
        )

    def plan(self, name: str) -> Plan:
        """What a pass would do now: reads the sources and the store, writes nothing, embeds nothing.

        Raises:
            CollectionNotFoundError: neither stored nor declared.
            SourceError: a source could not be read.
            ConfigurationError: the model does not resolve here, or a source can never work as it is declared.
        """
        collection = self.collection(name)
        declared = next((one for one in self.declared if one.name == name), None)
        if declared is None and collection.kind is CollectionKind.DECLARED:
            raise CollectionNotIndexedError(f'Knowledge collection "{name}" is not declared here: name its --app.')
        parts = self._parts
        model = (parts.models.default() if collection.outdated else None) or parts.models.wanted(collection)
        provider = self.settings.providers.get(model.id.partition("/")[0])
        return plan_step(
            store=parts.store,
            name=name,
            collection=collection if collection.key else None,
            model=model,
            sources=declared.sources if declared is not None else (),
            max_delete_ratio=declared.max_delete_ratio if declared is not None else None,
            price_per_million_tokens=provider.price_per_million_tokens if provider is not None else None,
            batch_size=self.settings.read_batch,
            idle_max_s=self.settings.progress_timeout_ms / 1000,
        )

    def check(self, *, servers: bool = True) -> list[str]:
        """What keeps the declarations from working here, one line each; embeds nothing, writes nothing.

        Args:
            servers: False looks at the declarations alone and connects to nothing.
        """
        problems: list[str] = []
        variable = self.settings.model or None
        for one in self.declared:
            problems += _problems(one.check)
        try:
            models = self._parts.models
        except KnowledgeError as error:
            return [*problems, error.message]  # a setting is wrong: said once, not for each collection
        for one in self.declared:
            if one.model != variable:
                problems += _problems(lambda one=one: models.resolve(one.model), f'Collection "{one.name}": ')
        if variable is not None:
            unresolved = _problems(models.default, "KNOWLEDGE_MODEL does not resolve: ")
            problems += [_without_value(problem, variable) for problem in unresolved]
        elif self._embedding_model is not None:
            problems += _problems(models.default, "embedding_model: ")
        if not servers:
            return problems
        if self._overrides.store is None:
            problems += _problems(lambda: check_database(database_url(self.settings)))
        if self._overrides.queue is None:
            problems += _problems(lambda: check_redis(redis_url(self.settings)))
        if not problems:
            problems += _problems(self._check_names)
        return problems

    def migrate(self) -> str:
        """Bring the database to this version's schema; several processes may do so at once.

        Returns:
            The revision it is at.
        """
        return self._parts.store.migrate()

    def readiness(self, *, patient: bool = True) -> list[str]:
        """What is missing before work can be done, one line each; empty when ready.

        Args:
            patient: beat has its time after this process started; else the last tick is judged as it is.
        """
        parts = self._parts
        problems = parts.store.health.problems()
        if parts.celery is not None:
            problems += broker_problems(parts.celery)
        # What is missing keeps ticks away, too; and a queue of the caller's own has a clock of its own.
        if problems or parts.celery is None:
            return problems
        if patient and 1000 * (time.monotonic() - self._made_at) < self._beat_old_ms:
            return []
        return self._beat_problems()

    def warnings(self) -> list[str]:
        """What a person should look at although work goes on, one line each.

        Raises:
            ServiceUnavailableError: the database does not answer.
        """
        stuck = self._pulse().stuck_claims
        if not stuck:
            return []
        return [
            f"claims: nobody takes up what a dead worker had in hand ({stuck} "
            f"{'document' if stuck == 1 else 'documents'}); see `knowledge-worker status`, then start a worker that "
            "declares the collection"
        ]

    def metrics(self, *, state: bool = True) -> bytes:
        """What Prometheus reads: the counts of this process.

        Args:
            state: also the state of the whole deployment, read from the servers now or a moment ago.
        """
        return self._measured.metrics.exposition(*[self._parts.state] if state else [])

    def close(self) -> None:
        """Close every connection of this process."""
        with self._making:
            if self._made is not None:
                self._made.close()
                self._made = None
            if self._measuring is not None:
                self._measuring.close()

    # What a worker does

    @property
    def celery(self) -> Celery:
        """The Celery application of this process.

        Raises:
            ConfigurationError: the queue was replaced by another one.
        """
        celery = self._parts.celery
        if celery is None:
            raise ConfigurationError("The queue of this Knowledge is not Celery.")
        return celery

    @property
    def observer(self) -> Observer:
        """Told what this process does; asking for it connects to nothing."""
        return self._measured.observer

    def run_pass(self, name: str) -> str:
        """Run a pass if one is due; what happened, in a word or two."""
        return self._parts.runner.run(name)

    def run_embed(self, name: str) -> str:
        """Help the holder of the lease with embedding; what happened, in a word or two."""
        return self._parts.runner.help(name)

    def run_tick(self) -> str:
        """Find what is due and wake workers for it."""
        due = self._parts.store.leases.tick()
        for name in due.reaped:
            log.error("knowledge error", collection=name, error="A worker stopped in mid-pass; its lease ran out.")
        self.observer.leases_expired(len(due.reaped))
        for name in due.names:
            self._parts.queue.nudge_sync(name)
        return f"{len(due.names)} due"

    def node_started(self, queues: Sequence[str]) -> None:
        """Register this worker: take up its declarations and ask for their start passes."""
        parts = self._parts
        asked = parts.store.collections.node_started(
            parts.node,
            queues=queues,
            declared=parts.declared,
            age_ms=round(1000 * (time.monotonic() - self._made_at)),
            alive_ms=ALIVE_TICKS * self.settings.tick_ms,
        )
        for name in asked:
            parts.queue.nudge_sync(name)
        self._queues = tuple(queues)

    def node_alive(self) -> None:
        """The heartbeat of this worker, every tick."""
        parts = self._parts
        taken = parts.store.collections.node_alive(
            parts.node,
            queues=self._queues,
            declared=parts.declared,
            alive_ms=ALIVE_TICKS * self.settings.tick_ms,
        )
        for name in taken:
            parts.queue.nudge_sync(name)

    def node_stopped(self) -> None:
        """Forget this worker, in an orderly stop."""
        self._parts.store.collections.node_stopped(self._parts.node)

    def request_stop(self) -> None:
        """Let running passes stop at their next step; they release their lease and come back elsewhere."""
        self._stop.set()

    _queues: tuple[str, ...] = ()

    @property
    def _beat_old_ms(self) -> int:
        """At least three ticks, whatever the setting says."""
        return max(self.settings.beat_old_ms, 3 * self.settings.tick_ms)

    def _pulse(self) -> Pulse:
        return self._parts.store.health.pulse(alive_ms=ALIVE_TICKS * self.settings.tick_ms)

    def _beat_problems(self) -> list[str]:
        age_ms = self._pulse().tick_age_ms
        if age_ms is not None and age_ms <= self._beat_old_ms:
            return []
        last = "there was no tick yet" if age_ms is None else f"the last tick was {age_ms / 1000:.0f} s ago"
        return [f"beat: {last}; start it with `knowledge-worker beat`"]

    @property
    def _parts(self) -> Parts:
        observer = self.observer
        with self._making:
            if self._made is None:
                model = self.settings.model or self._embedding_model
                self._made = build(self.settings, self.declared, model, self._overrides, self._stop, observer)
            return self._made

    @property
    def _measured(self) -> Measuring:
        with self._making:
            if self._measuring is None:
                self._measuring = measuring(self.settings)
            return self._measuring

    def _check_names(self) -> None:
        try:
            stored = {one.name: one for one in self._parts.store.collections.list_all()}
        except ServiceUnavailableError:
            return  # not migrated yet: nothing is stored that could clash
        for one in self.declared:
            held = stored.get(one.name)
            if held is not None and held.kind is CollectionKind.MANAGED:
                raise ConfigurationError(
                    f'The code declares "{one.name}", which the store holds as a managed collection: '
                    "rename one, or delete the managed one."
                )


def _problems(check: Callable[[], object], prefix: str = "") -> list[str]:
    try:
        check()
    except KnowledgeError as error:
        return [prefix + error.message]
    return []


def _without_value(problem: str, value: str) -> str:
    """A message without the value of a variable and without its quoted parts."""
    for part in (value, *value.split("/", 1)):
        problem = problem.replace(f'"{part}"', "of that name")
    return problem.replace(value, "…")


def _not_stored(declared: KnowledgeCollection) -> Collection:
    return Collection(
        key=0,
        name=declared.name,
        kind=CollectionKind.DECLARED,
        title=declared.title,
        description=declared.description,
        stored_status=CollectionStatus.PENDING,
        trusted=False,
        model=declared.model_id,
        language=declared.language,
        declaration=None,
        resync_ms=declared.resync_ms,
        error=None,
        failures=0,
        retry_at=None,
        failed_at=None,
        broken=False,
        notice=None,
        synced_at=None,
        requested=0,
        done=0,
        running=None,
        updated_at=datetime.now(UTC),
        serving=None,
        building=None,
    )
