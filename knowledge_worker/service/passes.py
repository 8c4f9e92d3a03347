"""Running passes: the lease, the steps, how each failure ends; and helping with the embedding of another's pass."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

import structlog

from knowledge_worker.declarations import KnowledgeCollection
from knowledge_worker.domain.collection import Collection, CollectionKind, Generation
from knowledge_worker.domain.limits import Limits
from knowledge_worker.domain.passes import PassCounts, PassTrigger
from knowledge_worker.errors import (
    ConfigurationError,
    EmbeddingUnavailableError,
    IncompleteReadError,
    KnowledgeError,
    LeaseLostError,
    NotSearchableError,
    PassCancelledError,
    ProviderBusyError,
    ServiceUnavailableError,
)
from knowledge_worker.indexing.embed import EmbedStep
from knowledge_worker.indexing.generations import generation_to_write
from knowledge_worker.indexing.keeper import Keeper
from knowledge_worker.indexing.provider_gate import HELPER_PATIENCE_MS, HOLDER_PATIENCE_MS, ProviderGate
from knowledge_worker.indexing.read import ReadResult, read_step
from knowledge_worker.ports import EmbeddingModel, Locks, LockState, Observation, Observer, Operation, WorkQueue
from knowledge_worker.service.models import ModelBook
from knowledge_worker.store.protocol import Failure, Guard, HelperTicket, Lease, Store, Success, Work

log = structlog.get_logger()
T = TypeVar("T")

LOCK_PREFIX: Final = "knowledge:"
HELPERS_AGAIN_S: Final = 5.0
"""Helpers are announced again so often while there is work for them: announcements may be lost."""
SERVED_AGAIN_S: Final = 1.0
"""While a managed collection is re-embedded, new content is also embedded for the searches of now, so often."""
POLL_S: Final = 0.2
"""How often the holder looks whether the last documents of others are settled."""


class PassRunner:
    """Runs passes in this process.

    Args:
        gate: shared by all that call embedding providers.
        helpers_max: tasks of this process that may help other passes at once; the rest of its threads is for passes.
        node: names this process; leases and claims carry it.
        stop: set when this process was asked to stop.
        observer: told of passes and their steps.
    """

    def __init__(
        self,
        *,
        store: Store,
        locks: Locks,
        queue: WorkQueue,
        models: ModelBook,
        declared: Mapping[str, KnowledgeCollection],
        fingerprints: Mapping[str, str],
        limits: Limits,
        gate: ProviderGate,
        helpers_max: int,
        node: str,
        stop: threading.Event,
        observer: Observer,
    ) -> None:
        self._store = store
        self._locks = locks
        self._queue = queue
        self._models = models
        self._declared = declared
        self._fingerprints = fingerprints
        self._limits = limits
        self._gate = gate
        self._helpers = threading.BoundedSemaphore(helpers_max)
        self._node = node
        self._stop = stop
        self._observer = observer

    def run(self, name: str) -> str:
        """Run a pass of ``name`` if one is due here; a second delivery finds nothing left to do.

        Returns:
            What happened, in a word or two, for Flower and logs.
        """
        collection = self._store.collections.find(name, counts=False)
        if collection is None:
            return "gone"
        if collection.kind is CollectionKind.DECLARED and self._fingerprints.get(name) != collection.declaration:
            return "left for a worker that declares it"
        if self._stop.is_set() or not self._store.leases.is_due(collection.key):
            return "nothing due"
        holder = f"{self._node}:{secrets.token_hex(8)}"
        lock = f"{LOCK_PREFIX}{name}"
        # Without Redis the lease in PostgreSQL is enough.
        if self._locks.acquire(lock, holder, lifetime_ms=self._limits.lease_ms) is LockState.TAKEN:
            return "busy"
        try:
            lease = self._store.leases.acquire(collection.key, holder=holder, declaration=self._fingerprints.get(name))
            if lease is None:
                return "busy"
            with self._observer.during(Operation.PASS, collection=name, trigger=lease.trigger) as seen:
                outcome = self._run_with_lease(lease, lock, seen)
                seen.note(outcome=outcome.partition(":")[0].replace(" ", "_"))
        finally:
            self._locks.release(lock, holder)
        # After the release, not before: a request that came in between would be left lying. And by name: the
        # collection may have been deleted and made anew, whose first pass found the lock taken.
        now = self._store.collections.find(name, counts=False)
        if now is not None and self._store.leases.is_due(now.key):
            self._queue.nudge_sync(name)
        return outcome

    def help(self, name: str) -> str:
        """Embed beside the holder of the lease until nothing is left to claim.

        Returns:
            What happened, in a word or two.
        """
        ticket = self._store.leases.join(name)
        collection = self._store.collections.find(name, counts=False)
        if ticket is None or collection is None or ticket.guard.key != collection.key or self._stop.is_set():
            return "nothing to help with"
        if collection.kind is CollectionKind.DECLARED and self._fingerprints.get(name) != collection.declaration:
            return "left for a worker that declares it"
        if not self._helpers.acquire(blocking=False):
            return "left to other workers"
        token = f"{self._node}:{secrets.token_hex(8)}"
        try:
            with (
                structlog.contextvars.bound_contextvars(collection=name),
                self._observer.during(Operation.HELP, collection=name),
                self._keeper(lambda: self._renew_claims(ticket.guard.key, token)) as keeper,
            ):
                return self._help(ticket, collection, token, keeper)
        finally:
            self._helpers.release()

    def _help(self, ticket: HelperTicket, collection: Collection, token: str, keeper: Keeper) -> str:
        step = EmbedStep(
            documents=self._store.documents,
            generations=self._store.generations,
            guard=ticket.guard,
            pass_id=ticket.pass_id,
            token=token,
            limits=self._limits,
            check=keeper.check,
            progress=keeper.progress,
            gate=self._gate,
            patience_ms=HELPER_PATIENCE_MS,
            wait=keeper.wait,
        )
        failure: Failure | None = None
        try:
            settled = sum(step.run(generation, model) for generation, model in self._generations(collection))
        except (LeaseLostError, PassCancelledError):
            return "stopped"
        except ServiceUnavailableError:
            return "the database is away"  # the holder finds out by itself
        except ProviderBusyError:
            return "the provider has enough callers"
        except KnowledgeError as error:
            failure = failure_of(error)
            return "the provider failed"
        finally:
            self._record(lambda: self._leave(ticket, token, failure, step.work))
        return f"{settled} documents"

    def _leave(self, ticket: HelperTicket, token: str, failure: Failure | None, work: PassCounts) -> None:
        """A helper's end. Claims that it did not give back would count as those of a worker that died."""
        if failure is not None:
            self._store.leases.report_helper_failure(ticket.guard, failure)
        self._store.leases.release_claims(ticket.guard.key, claim_token=token)
        self._store.passes.add(ticket.pass_id, Work(counts=work))

    def _run_with_lease(self, lease: Lease, lock: str, seen: Observation) -> str:
        with structlog.contextvars.bound_contextvars(collection=lease.name, pass_id=lease.pass_id):
            token = lease.guard.holder
            with self._keeper(lambda: self._renew(lease, lock)) as keeper:
                log.info("pass_started", trigger=lease.trigger)
                started = time.monotonic()
                try:
                    outcome = self._steps(lease, keeper)
                except LeaseLostError:
                    return self._lost(lease)
                except PassCancelledError:
                    self._record(lambda: self._store.leases.give_up(lease, claim_token=token, reason="worker stopped"))
                    log.info("pass_cancelled")
                    return "cancelled"
                except BaseException as error:  # noqa: BLE001 - even sys.exit() in a model: stored, back on the backoff
                    return self._fail(lease, error, token)
                counts = self._store.passes.counts(lease.pass_id)
                seen.note(**counts.model_dump())
                log.info(
                    "pass_finished",
                    outcome=outcome,
                    duration_ms=round(1000 * (time.monotonic() - started)),
                    **{name: value for name, value in counts.model_dump().items() if value},
                )
                return outcome

    def _steps(self, lease: Lease, keeper: Keeper) -> str:
        collection = self._store.collections.find(lease.name, counts=False)
        if collection is None or collection.key != lease.guard.key:
            raise LeaseLostError("The collection is gone.")
        model = self._models.wanted(collection)
        generation = generation_to_write(self._store.generations, lease.guard, collection, model)
        if lease.forced:
            self._store.documents.retry_failed(lease.guard)
        # A start's attempt is exempt from this collection's waiting time, not a healthy one from its provider's pause.
        insisted = lease.forced and (lease.trigger is not PassTrigger.START or collection.retry_at is not None)
        with self._observer.during(Operation.READ, collection=lease.name):
            read = self._read(lease, keeper)
        served = None
        if collection.kind is CollectionKind.MANAGED and collection.serving not in (None, generation):
            served = self._served_meanwhile(lease, keeper, collection)
        while True:
            with self._observer.during(Operation.EMBED, collection=lease.name):
                self._embed(lease, keeper, generation, model, insisted=insisted, meanwhile=served)
            switch = generation.id if collection.serving is None or generation.id != collection.serving.id else None
            if read.reasons and switch is not None and collection.serving is not None:
                raise IncompleteReadError(read.reasons)
            with self._observer.during(Operation.STORE, collection=lease.name):
                self._store.generations.fit_storage(
                    lease.guard, generation, check=keeper.check, progress=keeper.progress
                )
            success = Success(switch_to=switch, incomplete=read.reasons, notice=read.notice)
            if self._record(lambda: self._store.leases.succeed(lease, success)):  # noqa: B023 - called at once
                break
        if switch is not None:
            self._drop_old(lease)
        return "incomplete" if read.reasons else "ok"

    def _read(self, lease: Lease, keeper: Keeper) -> ReadResult:
        declared = self._declared.get(lease.name)
        if declared is None:
            return ReadResult(reasons=(), notice=None)
        try:
            return read_step(
                store=self._store,
                guard=lease.guard,
                pass_id=lease.pass_id,
                name=lease.name,
                sources=declared.sources,
                max_delete_ratio=declared.max_delete_ratio,
                deletes_confirmed=lease.deletes_confirmed,
                batch_size=self._limits.read_batch,
                cancelled=lambda: keeper.cancelled,
                progress=keeper.progress,
            )
        except PassCancelledError:
            keeper.check()
            raise

    def _served_meanwhile(self, lease: Lease, keeper: Keeper, collection: Collection) -> Callable[[], None]:
        """Embeds what is put into a managed collection with the model that serves it, while another is prepared.

        That model may be gone, which may be why it is replaced: then new content is found after the switch only.
        """
        assert collection.serving is not None
        generation = collection.serving
        token = _served_token(lease)
        step = self._step(lease, keeper, token=token, patience_ms=HELPER_PATIENCE_MS)
        usable: list[EmbeddingModel] = []
        try:
            usable.append(self._models.serving(generation, collection))
        except NotSearchableError as error:
            log.warning("served_model_gone", model=generation.model, error=error.message)

        def embed() -> None:
            if not usable:
                return
            try:
                step.run(generation, usable[0])
            except ProviderBusyError:
                return  # another time
            except EmbeddingUnavailableError as error:
                usable.clear()
                log.warning("served_model_fails", model=generation.model, error=error.message)
            finally:
                self._store.leases.release_claims(lease.guard.key, claim_token=token)
                self._store.passes.add(lease.pass_id, Work(counts=step.work))
                step.work = PassCounts()

        return embed

    def _step(
        self,
        lease: Lease,
        keeper: Keeper,
        *,
        token: str,
        patience_ms: int = HOLDER_PATIENCE_MS,
        despite_pause: bool = False,
        on_answer: Callable[[], None] = lambda: None,
    ) -> EmbedStep:
        return EmbedStep(
            documents=self._store.documents,
            generations=self._store.generations,
            guard=lease.guard,
            pass_id=lease.pass_id,
            token=token,
            limits=self._limits,
            check=keeper.check,
            progress=keeper.progress,
            gate=self._gate,
            patience_ms=patience_ms,
            wait=keeper.wait,
            despite_pause=despite_pause,
            on_answer=on_answer,
        )

    def _embed(
        self,
        lease: Lease,
        keeper: Keeper,
        generation: Generation,
        model: EmbeddingModel,
        *,
        insisted: bool,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        announced = _Announcement(self._store, self._queue, lease, self._limits)

        def announce() -> None:
            if step.waited_s < HELPER_PATIENCE_MS / 1000:  # else the provider has enough callers
                announced.maybe(self._store.documents.unsettled(lease.guard.key, generation))

        announce_now_and_then = announced.throttled(announce)
        served_again_at = time.monotonic() + SERVED_AGAIN_S

        def answered() -> None:
            nonlocal served_again_at
            announce_now_and_then()
            if meanwhile is not None and time.monotonic() >= served_again_at:
                meanwhile()
                served_again_at = time.monotonic() + SERVED_AGAIN_S

        step = self._step(lease, keeper, token=lease.guard.holder, despite_pause=insisted, on_answer=answered)
        try:
            before = -1
            while True:
                keeper.check()
                self._raise_helper_failure(lease.guard)
                if meanwhile is not None:
                    meanwhile()
                step.run(generation, model)
                left = self._store.documents.unsettled(lease.guard.key, generation)
                if left == 0:
                    return
                if left != before:
                    keeper.progress()
                before = left
                keeper.wait(POLL_S)
        finally:
            self._store.passes.add(lease.pass_id, Work(counts=step.work))
            step.work = PassCounts()

    def _raise_helper_failure(self, guard: Guard) -> None:
        failure = self._store.leases.helper_failure(guard)
        if failure is not None:
            raise EmbeddingUnavailableError(failure.message, retry_after_ms=failure.retry_after_ms, calls=0)

    def _drop_old(self, lease: Lease) -> None:
        try:
            self._store.generations.drop_unused(lease.guard.key)
        except KnowledgeError as error:
            log.warning("old_generation_kept", error=error.message)  # the next pass drops it

    def _fail(self, lease: Lease, error: BaseException, token: str) -> str:
        failure = failure_of(error)
        if lease.kind is CollectionKind.MANAGED:
            failure = replace(failure, permanent=False)  # nobody declares it anew; the setting may be mended
        expected = isinstance(error, KnowledgeError)
        log.error("knowledge error", error=failure.message, permanent=failure.permanent, exc_info=not expected)
        try:
            self._record(lambda: self._store.leases.fail(lease, failure, claim_token=token))
        except LeaseLostError:
            return self._lost(lease)
        return f"failed: {failure.message}"

    def _lost(self, lease: Lease) -> str:
        now = self._store.collections.find(lease.name, counts=False)
        if now is None or now.key != lease.guard.key:
            log.info("collection_deleted")
            return "gone"
        log.warning("lease_lost")
        return "lease lost"

    def _generations(self, collection: Collection) -> list[tuple[Generation, EmbeddingModel]]:
        """What a helper may write to: the same as the holder."""
        if collection.building is not None:
            return [(collection.building, self._models.wanted(collection))]
        if collection.serving is not None:
            return [(collection.serving, self._models.serving(collection.serving, collection))]
        return []

    def _record(self, write: Callable[[], T]) -> T:
        return _patiently(write, give_up_after_s=self._limits.lease_ms / 2000, stop=self._stop)

    def _renew(self, lease: Lease, lock: str) -> bool:
        state = self._locks.renew(lock, lease.guard.holder, lifetime_ms=self._limits.lease_ms)
        if state is LockState.TAKEN:
            log.warning("lock_taken_by_another")  # PostgreSQL decides
        if lease.kind is CollectionKind.MANAGED:
            self._store.leases.renew_claims(lease.guard.key, claim_token=_served_token(lease))
        return self._store.leases.renew(lease.guard, claim_token=lease.guard.holder)

    def _renew_claims(self, key: int, token: str) -> bool:
        self._store.leases.renew_claims(key, claim_token=token)
        return True

    def _keeper(self, renew: Callable[[], bool]) -> Keeper:
        return Keeper(
            renew,
            lifetime_ms=min(self._limits.lease_ms, self._limits.claim_ms),
            progress_timeout_ms=self._limits.progress_timeout_ms,
            stop=self._stop,
        )


class _Announcement:
    """Calls helpers once the provider has answered, and again now and then."""

    def __init__(self, store: Store, queue: WorkQueue, lease: Lease, limits: Limits) -> None:
        self._store = store
        self._queue = queue
        self._lease = lease
        self._limits = limits
        self._next = 0.0
        self._open = False

    def throttled(self, answered: Callable[[], None]) -> Callable[[], None]:
        """``answered``, but not more often than helpers are announced."""

        def call() -> None:
            if time.monotonic() >= self._next:
                answered()

        return call

    def maybe(self, unsettled: int) -> None:
        """Call as many helpers as there is work for beyond what the holder has in hand."""
        self._next = time.monotonic() + HELPERS_AGAIN_S
        helpers = min(self._limits.embed_concurrency - 1, unsettled // self._limits.claim_documents)
        if helpers < 1:
            return
        if not self._open:
            self._store.leases.open_helpers(self._lease.guard)
            self._open = True
        self._queue.nudge_embed(self._lease.name, helpers=helpers)


def _served_token(lease: Lease) -> str:
    """The claims of :meth:`PassRunner._served_meanwhile` are given back by themselves."""
    return f"{lease.guard.holder}:served"


def failure_of(error: BaseException) -> Failure:
    """What the collection shows of an error: one line, and when to try again."""
    match error:
        case ConfigurationError():
            return Failure(message=error.message, permanent=True)
        case EmbeddingUnavailableError():
            return Failure(message=error.message, retry_after_ms=error.retry_after_ms)
        case IncompleteReadError():
            return Failure(message=error.message, reasons=error.reasons)
        case KnowledgeError():
            return Failure(message=error.message)
        case _:
            return Failure(message=f"Unexpected {type(error).__name__}; the worker's log has the details.")


def _patiently(write: Callable[[], T], *, give_up_after_s: float, stop: threading.Event) -> T:
    """Write a pass's end, waiting for a database that is just restarting; the lease's end is the other way out."""
    until = time.monotonic() + give_up_after_s
    while True:
        try:
            return write()
        except ServiceUnavailableError:
            if time.monotonic() > until or stop.is_set():
                raise
            time.sleep(0.5)
