"""Every error this package raises. ``except KnowledgeError`` catches all of them.

::

    KnowledgeError                   stable ``code``; the message never holds document content or keys
    ├─ ConfigurationError            the code or a setting is wrong: reported once, stored, not retried; the boot fails
    │  └─ ServerUnusableError        a database or Redis that answers but cannot be used: too old, no pgvector, evicting
    ├─ InvalidInputError             the caller's value; ``field`` names it                               400
    │  └─ InputTooLargeError         the body or a value is over its limit                                413
    ├─ AccessError
    │  ├─ UnauthenticatedError       no valid token                                                       401
    │  └─ PermissionDeniedError      the token lacks the permission                                       403
    ├─ NotFoundError                                                                                      404
    │  ├─ CollectionNotFoundError
    │  ├─ CollectionNotIndexedError  known, but nothing here indexes it (a configuration error ended it)
    │  └─ DocumentNotFoundError
    ├─ ConflictError                                                                                      409
    │  ├─ CollectionExistsError
    │  ├─ CollectionDeclaredError
    │  ├─ CollectionNotManagedError
    │  └─ NoDefaultModelError
    ├─ PreconditionFailedError       the document is not the one the caller meant (If-Match)                412
    ├─ NotSearchableError            a tool error the model can read                                      409
    │  ├─ CollectionNotReadyError
    │  ├─ CollectionNotAllowedError  outside the list of this agent, or orphaned
    │  └─ PreviousModelGoneError
    ├─ SourceError                   reading failed: the pass comes back on the backoff
    │  └─ IncompleteReadError        something was missing while a new model waits for the whole
    ├─ EmbeddingError
    │  ├─ EmbeddingRejectedError     the provider refuses a text (400, 413, 422): fails the document
    │  └─ EmbeddingUnavailableError  no answer, a rate limit, a 5xx, garbage: fails the pass, documents stay pending
    │     └─ ProviderBusyError       nothing was asked: its limits are used up, or it asked for a pause
    ├─ LeaseLostError                another worker owns the collection: stop, write nothing
    ├─ PassStuckError                nothing moved for too long: fails the pass
    ├─ PassCancelledError            this worker was asked to stop: release the lease, the request stays
    └─ ServiceUnavailableError       PostgreSQL or Redis does not answer: try again                       503
"""

from __future__ import annotations

from typing import ClassVar


class KnowledgeError(Exception):
    """The root of every error of this package.

    Attributes:
        code: stable, snake_case; what a program compares.
        status: of the HTTP answer that told it, where :mod:`knowledge_worker.client` raises it; None elsewhere.
    """

    code: ClassVar[str] = "knowledge_error"
    status: int | None = None

    @property
    def message(self) -> str:
        """One line for people: what is wrong and, where that helps, what to do."""
        return str(self)


class ConfigurationError(KnowledgeError):
    """The code or a setting is wrong; trying again cannot help."""

    code = "configuration"


class ServerUnusableError(ConfigurationError):
    """A server answers but cannot be used as it is: too old, an extension missing, keys evicted."""

    code = "server_unusable"


class InvalidInputError(KnowledgeError):
    """A value of the caller breaks a rule.

    Attributes:
        field: the value's name as the caller wrote it, where there is one.
    """

    code = "invalid_input"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InputTooLargeError(InvalidInputError):
    """A body is over its limit."""

    code = "too_large"


class AccessError(KnowledgeError):
    """The caller may not do this."""

    code = "access"


class UnauthenticatedError(AccessError):
    """No token, or one that nobody issued."""

    code = "unauthenticated"


class PermissionDeniedError(AccessError):
    """The token is known and lacks the permission."""

    code = "permission_denied"


class NotFoundError(KnowledgeError):
    """What was named is not there."""

    code = "not_found"


class CollectionNotFoundError(NotFoundError):
    """No collection has this name."""

    code = "collection_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f'There is no knowledge collection "{name}".')
        self.name = name


class CollectionNotIndexedError(NotFoundError):
    """The collection is known, but nothing indexes it until a process declares it anew."""

    code = "collection_not_indexed"


class DocumentNotFoundError(NotFoundError):
    """The collection holds no document with this id."""

    code = "document_not_found"

    def __init__(self, collection: str, document: str) -> None:
        super().__init__(f'Knowledge collection "{collection}" has no document "{document}".')


class ConflictError(KnowledgeError):
    """The request is well formed but the state of things forbids it."""

    code = "conflict"


class CollectionExistsError(ConflictError):
    """A stored collection, orphaned ones included, has this name."""

    code = "collection_exists"


class CollectionDeclaredError(ConflictError):
    """The code declares this collection, so only the code can change or remove it."""

    code = "collection_declared"


class CollectionNotManagedError(ConflictError):
    """Documents can be written one by one to managed collections only."""

    code = "collection_not_managed"


class NoDefaultModelError(ConflictError):
    """Managed collections need a default model and none is set."""

    code = "no_default_model"


class PreconditionFailedError(KnowledgeError):
    """The document is not, or is not any more, what the caller made a condition of the write; read it again."""

    code = "precondition_failed"


class NotSearchableError(KnowledgeError):
    """A search cannot be answered now; the message is written for the model that asked."""

    code = "not_searchable"


class CollectionNotReadyError(NotSearchableError):
    """The collection was never indexed."""

    code = "collection_not_ready"

    def __init__(self, name: str) -> None:
        super().__init__(f'Knowledge collection "{name}" is not ready.')


class CollectionNotAllowedError(NotSearchableError):
    """The collection is outside the caller's list, or no code declares it any more."""

    code = "collection_not_allowed"

    def __init__(self, name: str) -> None:
        super().__init__(f'Knowledge collection "{name}" is not available here.')


class PreviousModelGoneError(NotSearchableError):
    """The served vectors were made by a model that this process cannot reach."""

    code = "previous_model_gone"

    def __init__(self, name: str, model: str) -> None:
        super().__init__(
            f'Knowledge collection "{name}" is being re-embedded; its previous model "{model}" is not available here.'
        )


class SourceError(KnowledgeError):
    """Reading a source failed; the pass comes back on the backoff and nothing is deleted."""

    code = "source"


class IncompleteReadError(SourceError):
    """A read missed something, so the generation being written is not complete and is not switched to.

    Attributes:
        reasons: what was missing, as the sources said.
    """

    code = "incomplete_read"

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__(f"The read was incomplete, so the new model is not switched to yet: {'; '.join(reasons)}")
        self.reasons = reasons


class EmbeddingError(KnowledgeError):
    """A text did not become a vector."""

    code = "embedding"


class EmbeddingRejectedError(EmbeddingError):
    """The provider refuses a text (HTTP 400, 413, 422); the same text fails again.

    Attributes:
        calls: HTTP requests that were made before and with the refusal.
    """

    code = "embedding_rejected"

    def __init__(self, message: str, *, calls: int = 1) -> None:
        super().__init__(message)
        self.calls = calls


class EmbeddingUnavailableError(EmbeddingError):
    """No usable answer: a time-out, a rate limit, a 5xx, wrong vectors; the pass comes back on the backoff.

    Attributes:
        retry_after_ms: the provider's own wish, in milliseconds; the next attempt is not before it.
        calls: HTTP requests that were made.
        rate_limited: the provider has too much to do for now (429).
    """

    code = "embedding_unavailable"

    def __init__(
        self, message: str, *, retry_after_ms: int | None = None, calls: int = 1, rate_limited: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms
        self.calls = calls
        self.rate_limited = rate_limited


class ProviderBusyError(EmbeddingUnavailableError):
    """Nothing was asked: the provider's limits are used up, or it asked for a pause."""

    code = "provider_busy"


class LeaseLostError(KnowledgeError):
    """Another worker owns the collection now: stop and write nothing."""

    code = "lease_lost"


class PassStuckError(KnowledgeError):
    """A source or a provider hangs; the pass fails and is tried again on the backoff."""

    code = "pass_stuck"


class PassCancelledError(KnowledgeError):
    """This worker was asked to stop; the request stays and another worker takes it up."""

    code = "pass_cancelled"


class ServiceUnavailableError(KnowledgeError):
    """PostgreSQL or Redis does not answer; the same call may succeed in a moment."""

    code = "unavailable"
