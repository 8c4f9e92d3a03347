"""Claim documents that wait, chunk them, embed what is new, store it: the same for the lease's holder and helpers."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import structlog

from knowledge_worker.chunking import chunk_text
from knowledge_worker.domain.collection import NO_MODEL, Generation
from knowledge_worker.domain.document import is_blank
from knowledge_worker.domain.limits import Limits
from knowledge_worker.domain.passes import PassCounts
from knowledge_worker.errors import (
    EmbeddingRejectedError,
    EmbeddingUnavailableError,
    KnowledgeError,
    PassCancelledError,
    ServiceUnavailableError,
)
from knowledge_worker.indexing.provider_gate import ProviderGate
from knowledge_worker.ports import EmbeddingModel, Embeddings, Vectors
from knowledge_worker.store.protocol import (
    ClaimedDocument,
    DocumentStore,
    EmbeddedChunk,
    GenerationStore,
    Guard,
    SettledDocument,
)

log = structlog.get_logger()

CLAIMED_MAX_CHARS: Final = 500_000
"""Contents of documents that one claim takes at most, together; at least one document is always taken."""

SETTLED_EVERY_S: Final = 0.2
"""Answers that come faster are stored together: all that a worker which is killed had paid for in vain."""
SETTLED_PASSAGES: Final = 512
"""So many are stored at once however fast they come: documents are locked meanwhile."""

AGAIN_S: Final = 0.5
"""How often it is tried to keep what is paid for while the database is away."""

PROBE: Final = "knowledge"
"""Sent alone when a provider refused every text: tells a broken model name from documents it cannot take."""


@dataclass(slots=True)
class _Work:
    """A claimed document and what is known of its chunks."""

    document: ClaimedDocument
    chunks: list[EmbeddedChunk]
    kept: dict[bytes, Vectors]
    missing: set[bytes]
    refusal: str | None = None
    reused: int = 0

    @property
    def complete(self) -> bool:
        return self.refusal is not None or not self.missing


@dataclass(slots=True)
class _Batch:
    """Texts that wait to be embedded, each once, in the order they came."""

    texts: dict[bytes, str] = field(default_factory=dict)
    works: list[_Work] = field(default_factory=list)


class EmbedStep:
    """Embeds one generation of a collection until nothing is left that nobody has.

    Args:
        token: this worker's claims carry it.
        check: called between calls; raises when the work must stop.
        progress: called whenever something moved.
        gate: asked before each call of the provider.
        patience_ms: the longest wait for a turn there.
        wait: sleeps for some seconds, less when the work is to stop.
        despite_pause: the first call is made although the provider asked for a pause.
        on_answer: called after each answer of the provider.
    """

    def __init__(
        self,
        *,
        documents: DocumentStore,
        generations: GenerationStore,
        guard: Guard,
        pass_id: int,
        token: str,
        limits: Limits,
        check: Callable[[], None],
        progress: Callable[[], None],
        gate: ProviderGate,
        patience_ms: int,
        wait: Callable[[float], None],
        despite_pause: bool = False,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self._documents = documents
        self._generations = generations
        self._guard = guard
        self._pass_id = pass_id
        self._token = token
        self._limits = limits
        self._check = check
        self._progress = progress
        self._gate = gate
        self._patience_ms = patience_ms
        self._wait = wait
        self._despite_pause = despite_pause
        self._on_answer = on_answer
        self.work = PassCounts()
        """Calls and tokens that no settled document has taken to the record yet."""
        self.waited_s = 0.0
        """For the turn of the last call."""
        self._answered = False
        self._settled_at = 0.0

    def run(self, generation: Generation, model: EmbeddingModel) -> int:
        """Embed until nothing can be claimed.

        Returns:
            Documents settled.

        Raises:
            EmbeddingUnavailableError: the provider fails; what was claimed must be released.
            LeaseLostError, PassCancelledError: from ``check`` and the guard.
        """
        size = max(1, min(self._limits.embed_batch_size, model.max_inputs))
        settled = 0
        while True:
            batch = _Batch()
            try:
                settled += self._run_batches(generation, model, batch, size)
                alone = self._claim(generation, batch, alone=True)
                if not alone:
                    return settled
                settled += self._flush(generation, model, batch, size)
            except (EmbeddingUnavailableError, PassCancelledError, ServiceUnavailableError):
                with contextlib.suppress(KnowledgeError):
                    self._keep_what_is_paid_for(generation, model, batch)
                raise

    def _run_batches(self, generation: Generation, model: EmbeddingModel, batch: _Batch, size: int) -> int:
        settled = 0
        while True:
            self._check()
            while len(batch.texts) < size and self._claim(generation, batch, alone=False):
                settled += self._settle_in_time(generation, model, batch)
            if len(batch.texts) < size:
                return settled + self._flush(generation, model, batch, size)
            self._embed(model, batch, size)
            settled += self._settle_in_time(generation, model, batch)

    def _keep_what_is_paid_for(self, generation: Generation, model: EmbeddingModel, batch: _Batch) -> None:
        """Settle before the work ends by an error, and wait for a database that is just restarting."""
        until = time.monotonic() + self._limits.claim_ms / 2000
        while True:
            try:
                self._settle(generation, model, batch)
            except ServiceUnavailableError:
                if time.monotonic() > until:
                    raise
                self._check()
                time.sleep(AGAIN_S)
            else:
                return

    def _settle_in_time(self, generation: Generation, model: EmbeddingModel, batch: _Batch) -> int:
        """Settle, unless that was done just now: then it waits for some more, as a transaction has its price, too."""
        passages = sum(len(work.chunks) for work in batch.works if work.complete)
        if passages < SETTLED_PASSAGES and time.monotonic() - self._settled_at < SETTLED_EVERY_S:
            return 0
        return self._settle(generation, model, batch)

    def _flush(self, generation: Generation, model: EmbeddingModel, batch: _Batch, size: int) -> int:
        settled = self._settle(generation, model, batch)
        while batch.texts:
            self._check()
            self._embed(model, batch, size)
            settled += self._settle(generation, model, batch, last=not batch.texts)
        return settled + self._settle(generation, model, batch, last=True)

    def _claim(self, generation: Generation, batch: _Batch, *, alone: bool) -> bool:
        claimed = self._documents.claim(
            self._guard,
            generation,
            token=self._token,
            limit=self._limits.claim_documents,
            max_chars=CLAIMED_MAX_CHARS,
            alone=alone,
        )
        if not claimed:
            return False
        kept = self._generations.kept_vectors(generation, claimed)
        for document in claimed:
            batch.works.append(self._prepare(generation, document, dict(kept.get(document.id, {})), batch))
        return True

    def _prepare(
        self, generation: Generation, document: ClaimedDocument, kept: dict[bytes, Vectors], batch: _Batch
    ) -> _Work:
        if document.deaths >= self._limits.claim_deaths:
            log.error("document_given_up", document=document.document_id, deaths=document.deaths)
            refusal = f"It was being processed when {document.deaths} workers stopped without a word."
            return _Work(document, [], {}, set(), refusal)
        chunks = [
            EmbeddedChunk(chunk=chunk, text_hash=text_hash(chunk.text))
            for chunk in chunk_text(document.content)
            if not is_blank(chunk.text)
        ]
        # Without a model nothing is sent; PostgreSQL takes the words when the chunks are stored.
        missing = {one.text_hash for one in chunks} - kept.keys() if generation.model != NO_MODEL else set[bytes]()
        for one in chunks:
            if one.text_hash in missing:
                batch.texts.setdefault(one.text_hash, one.chunk.text)
        reused = sum(one.text_hash in kept for one in chunks)
        return _Work(document, chunks, kept, missing, reused=reused)

    def _embed(self, model: EmbeddingModel, batch: _Batch, size: int) -> None:
        hashes = list(batch.texts)[:size]
        hashes = hashes[: self._gate.fitting(model, [batch.texts[one] for one in hashes])]
        vectors: dict[bytes, Vectors] = {}
        refused: dict[bytes, str] = {}
        self._call(model, [(one, batch.texts[one]) for one in hashes], vectors, refused)
        for one in hashes:
            del batch.texts[one]
        for work in batch.works:
            for one in work.missing & vectors.keys():
                work.kept[one] = vectors[one]
            work.missing -= vectors.keys()
            refusals = work.missing & refused.keys()
            if refusals and work.refusal is None:
                first = next(one for one in work.chunks if one.text_hash in refusals)
                work.refusal = (
                    f"Passage {first.chunk.index + 1} (lines {first.chunk.line_start}-{first.chunk.line_end}) "
                    f"was refused: {refused[first.text_hash]}"
                )
        # A refused document needs none of its other passages, unless another document shares them.
        wanted = {one for work in batch.works if work.refusal is None for one in work.missing}
        for one in [one for one in batch.texts if one not in wanted]:
            del batch.texts[one]

    def _call(
        self,
        model: EmbeddingModel,
        texts: Sequence[tuple[bytes, str]],
        vectors: dict[bytes, Vectors],
        refused: dict[bytes, str],
    ) -> None:
        """One call; halved for as long as the provider refuses it, until the refused text stands alone."""
        self._check()
        try:
            answer = self._ask(model, [text for _, text in texts])
        except EmbeddingRejectedError as error:
            self._progress()
            if len(texts) == 1:
                refused[texts[0][0]] = error.message
                return
            middle = len(texts) // 2
            self._call(model, texts[:middle], vectors, refused)
            self._call(model, texts[middle:], vectors, refused)
            return
        self.work.embedded += len(texts)
        check_answer(answer.vectors, len(texts), model.id)
        for (one, _), vector in zip(texts, answer.vectors, strict=True):
            vectors[one] = vector
        self._answered = True
        self._progress()
        self._on_answer()

    def _settle(self, generation: Generation, model: EmbeddingModel, batch: _Batch, *, last: bool = False) -> int:
        complete = [work for work in batch.works if work.complete]
        held_back = [work for work in complete if work.refusal is not None and not _gave_up(work)]
        if held_back and not self._answered:
            # Nothing was accepted yet: perhaps it is the model that is wrong, not the document.
            if last:
                self._probe(model)
            else:
                complete = [work for work in complete if work not in held_back]
        if not complete:
            return 0
        self._settled_at = time.monotonic()
        work = self.work.model_copy()
        settled = [_settled(one, generation) for one in complete]
        work.reused += sum(one.reused for one in settled)
        count = self._generations.settle(
            self._guard, generation, settled, token=self._token, pass_id=self._pass_id, work=work
        )
        self.work = PassCounts()
        done = {id(one) for one in complete}
        batch.works = [one for one in batch.works if id(one) not in done]
        self._progress()
        return count

    def _probe(self, model: EmbeddingModel) -> None:
        try:
            self._ask(model, [PROBE])
        except EmbeddingRejectedError as error:
            raise EmbeddingUnavailableError(
                f"The provider refuses every text for the model {model.id}: {error.message}", calls=0
            ) from error
        self._answered = True

    def _ask(self, model: EmbeddingModel, texts: Sequence[str]) -> Embeddings:
        """One call at its turn, counted whatever becomes of it."""
        turn = self._gate.enter(
            model,
            texts,
            patience_ms=self._patience_ms,
            wait=self._wait_for_turn,
            despite_pause=self._despite_pause,
        )
        self._despite_pause = False
        self.waited_s = turn.waited_s
        try:
            answer = model.embed(texts, purpose="document", timeout_ms=self._limits.embed_timeout_ms)
        except (EmbeddingRejectedError, EmbeddingUnavailableError) as error:
            self.work.calls += error.calls
            self._gate.ended(turn, error)
            raise
        self._gate.ended(turn, None)
        self.work.calls += answer.calls
        self.work.tokens += answer.tokens
        return answer

    def _wait_for_turn(self, seconds: float) -> None:
        self._check()
        self._progress()
        self._wait(seconds)


def text_hash(text: str) -> bytes:
    """What tells whether a chunk is embedded already: the first 16 bytes of the text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def check_answer(vectors: Vectors, count: int, model: str) -> None:
    """Refuse junk of any model, ours or the caller's (rule 28).

    Raises:
        EmbeddingUnavailableError: another number of vectors than texts, a value that is not finite, a zero vector.
    """
    if vectors.ndim != 2 or len(vectors) != count:
        raise EmbeddingUnavailableError(
            f"The model {model} answered {len(vectors)} vectors for {count} texts.", calls=0
        )
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        raise EmbeddingUnavailableError(f"The model {model} answered a vector that is zero or not finite.", calls=0)


def _gave_up(work: _Work) -> bool:
    """Whether the refusal is ours, not the provider's."""
    return work.refusal is not None and not work.chunks


def _settled(work: _Work, generation: Generation) -> SettledDocument:
    if work.refusal is not None:
        return SettledDocument(document=work.document, error=work.refusal)
    if not work.chunks:
        return SettledDocument(document=work.document)
    if generation.model == NO_MODEL:
        return SettledDocument(document=work.document, chunks=work.chunks)
    return SettledDocument(
        document=work.document,
        chunks=work.chunks,
        vectors=np.stack([work.kept[one.text_hash] for one in work.chunks]),
        reused=work.reused,
    )
