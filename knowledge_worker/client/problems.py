"""An answer that is no success → the error of :mod:`knowledge_worker.errors` that the service raised."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

import httpx

from knowledge_worker.client.exchange import Lost, Reply
from knowledge_worker.client.retry_after import retry_after_s
from knowledge_worker.errors import (
    AccessError,
    CollectionNotFoundError,
    ConfigurationError,
    ConflictError,
    EmbeddingRejectedError,
    EmbeddingUnavailableError,
    IncompleteReadError,
    InputTooLargeError,
    InvalidInputError,
    KnowledgeError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    ServiceUnavailableError,
    UnauthenticatedError,
)

Error = TypeVar("Error", bound=KnowledgeError)

_BY_STATUS: Final[Mapping[int, type[KnowledgeError]]] = {
    HTTPStatus.BAD_REQUEST: InvalidInputError,
    HTTPStatus.UNAUTHORIZED: UnauthenticatedError,
    HTTPStatus.FORBIDDEN: PermissionDeniedError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.PRECONDITION_FAILED: PreconditionFailedError,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: InputTooLargeError,
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED: AccessError,
    HTTPStatus.REQUEST_TIMEOUT: ServiceUnavailableError,
    HTTPStatus.TOO_MANY_REQUESTS: ServiceUnavailableError,
}
"""For an error without a code that we know: of a proxy, or of a newer service."""


def problem(outcome: Reply | Lost, *, collection: str, address: str) -> KnowledgeError:
    """The error that an outcome stands for.

    Args:
        outcome: no success.
        collection: that the request named; empty where it named none.
        address: of the service, for the message.
    """
    if isinstance(outcome, Lost):
        return unavailable(outcome.error, address=address)
    detail = _detail(outcome.body)
    if detail is None:
        return _without_detail(outcome, address=address)
    wish_s = retry_after_s(outcome.headers)
    return problem_of(detail, outcome.status, collection=collection, retry_after_s=wish_s)


def problem_of(
    detail: Mapping[str, Any], status: int, *, collection: str, retry_after_s: float | None = None
) -> KnowledgeError:
    """The error that ``{"code", "message", "field"?}`` stands for."""
    message = str(detail.get("message") or f"The service answered {status}.")
    kind = _BY_CODE.get(str(detail.get("code"))) or _by_status(status)
    facts: dict[str, object] = {"status": status}
    # What a constructor would have set; the message says the rest.
    if issubclass(kind, InvalidInputError):
        facts["field"] = detail.get("field")
    elif issubclass(kind, CollectionNotFoundError):
        facts["name"] = collection
    elif issubclass(kind, EmbeddingRejectedError):
        facts["calls"] = 0
    elif issubclass(kind, EmbeddingUnavailableError):
        facts |= {"calls": 0, "retry_after_ms": None if retry_after_s is None else round(1000 * retry_after_s)}
    elif issubclass(kind, IncompleteReadError):
        facts["reasons"] = ()
    return _restored(kind, message, facts)


def unavailable(error: httpx.RequestError, *, address: str) -> ServiceUnavailableError:
    """The error for a request without an answer."""
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            said = "cannot be connected to in time"
        case httpx.TimeoutException():
            said = "did not answer in time"
        case httpx.ConnectError():
            said = f"cannot be connected to ({error})"
        case httpx.ProxyError():
            said = "cannot be reached through the proxy"
        case _:
            said = "broke off the exchange"
    return ServiceUnavailableError(f"{address} {said}.")


def unreadable(reply: Reply, *, address: str) -> KnowledgeError:
    """The error for a success that this client cannot read."""
    return _restored(
        ConfigurationError,
        f"{address} answered {reply.status} with something that is no answer of knowledge-worker: "
        "check the base URL and the versions.",
        {"status": reply.status},
    )


def _detail(body: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    return cast("Mapping[str, Any]", error) if isinstance(error, dict) else None


def _without_detail(reply: Reply, *, address: str) -> KnowledgeError:
    if 200 <= reply.status < 400:
        return unreadable(reply, address=address)
    message = f"{address} answered {reply.status} without an error of knowledge-worker: a proxy, or a wrong base URL."
    return problem_of({"message": message}, reply.status, collection="")


def _by_status(status: int) -> type[KnowledgeError]:
    return _BY_STATUS.get(status, ServiceUnavailableError if status >= 500 else KnowledgeError)


def _restored(kind: type[Error], message: str, facts: Mapping[str, object]) -> Error:
    """An error as the service raised it.

    Constructors differ and some make the message out of their arguments. Ours is made already, by the service, so they
    are passed by.
    """
    error = kind.__new__(kind, message)
    for name, value in facts.items():
        setattr(error, name, value)
    return error


def _all_kinds(kind: type[KnowledgeError]) -> Iterator[type[KnowledgeError]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from _all_kinds(sub)


_BY_CODE: Final = {kind.code: kind for kind in _all_kinds(KnowledgeError) if "code" in vars(kind)}
