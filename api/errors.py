"""Error class → HTTP status: the one table, and the one shape of an error (specification rule 52)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, cast

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from knowledge_worker.errors import (
    ConflictError,
    EmbeddingRejectedError,
    EmbeddingUnavailableError,
    InputTooLargeError,
    InvalidInputError,
    KnowledgeError,
    NotFoundError,
    NotSearchableError,
    PermissionDeniedError,
    PreconditionFailedError,
    ServiceUnavailableError,
    SourceError,
    UnauthenticatedError,
)

STATUSES: Final[Mapping[type[KnowledgeError], HTTPStatus]] = {
    InvalidInputError: HTTPStatus.BAD_REQUEST,
    EmbeddingRejectedError: HTTPStatus.BAD_REQUEST,
    UnauthenticatedError: HTTPStatus.UNAUTHORIZED,
    PermissionDeniedError: HTTPStatus.FORBIDDEN,
    NotFoundError: HTTPStatus.NOT_FOUND,
    ConflictError: HTTPStatus.CONFLICT,
    NotSearchableError: HTTPStatus.CONFLICT,
    PreconditionFailedError: HTTPStatus.PRECONDITION_FAILED,
    InputTooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    EmbeddingUnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    ServiceUnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    SourceError: HTTPStatus.BAD_GATEWAY,
}
"""The nearest class in an error's ancestry counts; an error without one is 500 and its message is not shown."""

RETRY_AFTER_S: Final = 5
"""What a 503 proposes when the error itself knows nothing better."""

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_log = structlog.get_logger()


class SentFieldError(InvalidInputError):
    """A parameter, header or field that the caller sent is wrong or unknown; it is named just as it was sent."""


class UnsignedError(UnauthenticatedError):
    """A webhook without the right signature."""

    challenge = "X-Hub-Signature-256"


def status_of(error: Exception) -> HTTPStatus:
    """The HTTP status of an error."""
    for ancestor in type(error).__mro__:
        if ancestor in STATUSES:
            return STATUSES[ancestor]
    return HTTPStatus.INTERNAL_SERVER_ERROR


def error_response(error: Exception) -> JSONResponse:
    """Any error as an answer; one that is not in the table is logged and shown without its message."""
    status = status_of(error)
    headers: dict[str, str] = {}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = error.challenge if isinstance(error, UnsignedError) else "Bearer"
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(_retry_after_s(error))
    return JSONResponse({"error": error_detail(error)}, status_code=status, headers=headers)


def error_detail(error: Exception) -> dict[str, str]:
    """Code, message and field of an error; one that is not in the table is logged and shown without its message."""
    if not isinstance(error, KnowledgeError) or status_of(error) is HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("request_error", error_type=type(error).__name__, exc_info=error)
        return _detail("internal", "Something went wrong here; the service's log says what.")
    return _detail(error.code, error.message, field=_field(error))


def invalid_input(error: ValidationError | RequestValidationError) -> InvalidInputError:
    """The first complaint of pydantic as our error; it never holds the value."""
    details = cast("Mapping[str, Any]", error.errors()[0])
    # FastAPI begins each location with where the value was: query, path.
    location = cast("Sequence[str | int]", details["loc"])[1 if isinstance(error, RequestValidationError) else 0 :]
    field = next((part for part in location if isinstance(part, str)), None)
    said = str(details["msg"])
    message = f"{said[:1].lower()}{said[1:]}."
    return SentFieldError(f'"{field}": {message}' if field else f"Wrong input: {message}", field=field)


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` in the one shape."""

    async def known(_request: Request, error: Exception) -> JSONResponse:
        return error_response(error)

    async def invalid(_request: Request, error: Exception) -> JSONResponse:
        return error_response(invalid_input(cast("RequestValidationError", error)))

    async def http(request: Request, error: Exception) -> JSONResponse:
        return _http_error(cast("HTTPException", error), request)

    app.add_exception_handler(KnowledgeError, known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def allowed_methods(scope: Scope, routes: Iterable[BaseRoute]) -> list[str]:
    """The methods that the path of ``scope`` knows, HEAD with every GET."""
    asked = {"type": "http", "path": scope["path"], "root_path": scope.get("root_path", ""), "headers": []}
    known = list(routes)
    allowed = [m for m in _METHODS if any(r.matches({**asked, "method": m})[0] is Match.FULL for r in known)]
    return ["HEAD", *allowed] if "GET" in allowed else allowed


def _http_error(error: HTTPException, request: Request) -> JSONResponse:
    """What the router itself refuses."""
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allow = ", ".join(sorted(allowed_methods(request.scope, request.app.routes)))
        message = f"This path knows {allow} only."
        return _answer(error.status_code, "method_not_allowed", message, headers={"Allow": allow})
    if error.status_code == HTTPStatus.NOT_FOUND:
        return _answer(error.status_code, "not_found", "There is nothing at this path.")
    if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return _answer(error.status_code, "invalid_input", f"{HTTPStatus(error.status_code).phrase}.")
    return error_response(error)


def _answer(status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": _detail(code, message)}, status_code=status, headers=headers)


def _field(error: KnowledgeError) -> str | None:
    """The wrong value's name as HTTP has it."""
    if not isinstance(error, InvalidInputError) or error.field is None:
        return None
    return error.field if isinstance(error, SentFieldError) else to_camel(error.field)


def _retry_after_s(error: Exception) -> int:
    wish_ms = error.retry_after_ms if isinstance(error, EmbeddingUnavailableError) else None
    return RETRY_AFTER_S if wish_ms is None else max(1, math.ceil(wish_ms / 1000))


def _detail(code: str, message: str, *, field: str | None = None) -> dict[str, str]:
    return {"code": code, "message": message} | ({} if field is None else {"field": field})
