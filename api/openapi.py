"""The OpenAPI document: complete and true."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.security import HTTPBearer
from pydantic import BaseModel

from .views import ErrorView

BEARER: Final = HTTPBearer(auto_error=False, scheme_name="token", description="One of KNOWLEDGE_TOKENS.")
"""Only documents the token; :class:`~.gate.Gate` checks it."""

_PROBLEMS: Final[dict[int, str]] = {
    HTTPStatus.BAD_REQUEST: "A value is wrong; `field` names it.",
    HTTPStatus.UNAUTHORIZED: "No valid token.",
    HTTPStatus.FORBIDDEN: "The token lacks the permission.",
    HTTPStatus.NOT_FOUND: "What was named is not there.",
    HTTPStatus.CONFLICT: "The state of things forbids it.",
    HTTPStatus.PRECONDITION_FAILED: "The document is not what the request made a condition; nothing was written.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is over its limit.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Something went wrong here.",
    HTTPStatus.BAD_GATEWAY: "A source could not be read.",
    HTTPStatus.SERVICE_UNAVAILABLE: "A server behind this one does not answer; try again after `Retry-After`.",
}
_ALWAYS: Final = (400, 401, 403, 500, 503)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document the errors of a route below ``/knowledge``: those of all routes, and ``statuses``."""
    described: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*_ALWAYS, *statuses}):
        described[status] = {"model": ErrorView, "description": _PROBLEMS[status]}
        if status == HTTPStatus.UNAUTHORIZED:
            described[status]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            described[status]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return described


def json_body(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Document a body that a route reads through :mod:`~.body`."""
    schema = model.model_json_schema(by_alias=True)
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


def header_parameter(name: str, description: str, *, pattern: str, example: str) -> dict[str, Any]:
    """Document a request header that a route reads itself."""
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string", "pattern": pattern},
        "example": example,
    }


def install(app: FastAPI) -> None:
    """Have ``app`` answer the document at ``/openapi.json``."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _without_422(
                get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            )
        return app.openapi_schema

    app.openapi = document


def _without_422(schema: dict[str, Any]) -> dict[str, Any]:
    """FastAPI documents a 422 wherever something is validated; here it is a 400 in our shape."""
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    return schema
