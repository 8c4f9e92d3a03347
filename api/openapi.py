"""The OpenAPI document: complete and true."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode

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


def problems(*statuses: int, without: Collection[int] = ()) -> dict[int | str, dict[str, Any]]:
    """Document the errors of a route below ``/knowledge``: those of all routes but ``without``, and ``statuses``."""
    described: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*_ALWAYS, *statuses} - {*without}):
        described[status] = {"model": ErrorView, "description": _PROBLEMS[status]}
        if status == HTTPStatus.UNAUTHORIZED:
            described[status]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            described[status]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return described


def json_body(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Document a body that a route reads through :mod:`~.body`."""
    content = {"application/json": {"schema": _whole_schema(model, mode="validation")}}
    return {"requestBody": {"required": required, "content": content}}


def ndjson_body(description: str, *, line: type[BaseModel], example: str) -> dict[str, Any]:
    """Document a body of one ``line`` a line; OpenAPI 3.1 has no words of its own for that."""
    schema = {"type": "string", "description": description, "x-line": _whole_schema(line, mode="validation")}
    content = {"application/x-ndjson": {"schema": schema, "example": example}}
    return {"requestBody": {"required": False, "description": description, "content": content}}


def ndjson_response(description: str, *, lines: Sequence[type[BaseModel]], example: str) -> dict[str, Any]:
    """Document an answer whose lines are each one of ``lines``."""
    schema = {
        "type": "string",
        "x-line": {"anyOf": [_whole_schema(one, mode="serialization") for one in lines]},
    }
    return {"description": description, "content": {"application/x-ndjson": {"schema": schema, "example": example}}}


def any_body(description: str) -> dict[str, Any]:
    """Document a body that may be anything."""
    content = {"application/json": {"schema": {}, "example": {"ref": "refs/heads/main"}}}
    return {"requestBody": {"required": False, "description": description, "content": content}}


def header_parameter(name: str, description: str, *, schema: dict[str, Any], example: str) -> dict[str, Any]:
    """Document a request header that a route reads itself."""
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": schema,
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


def _whole_schema(model: type[BaseModel], *, mode: JsonSchemaMode) -> dict[str, Any]:
    """The schema with its definitions put where they are referred to: a reference would point into the document."""
    schema = model.model_json_schema(by_alias=True, mode=mode)
    definitions = schema.pop("$defs", {})

    def put_in(value: Any) -> Any:
        if isinstance(value, list):
            return [put_in(one) for one in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        node = cast("dict[str, Any]", value)
        name = node.get("$ref")
        rest = {key: put_in(one) for key, one in node.items() if key != "$ref"}
        return rest if name is None else put_in(definitions[name.removeprefix("#/$defs/")]) | rest

    return put_in(schema)
