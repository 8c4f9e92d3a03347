"""What every request passes before a route sees it: its number and log line, then its path and its token.

These are ASGI middleware and not dependencies, because authorisation comes before any 400, 404 and 405, and a route
added later cannot forget it.
"""

from __future__ import annotations

import re
import time
import uuid
from http import HTTPStatus
from typing import Any, Final

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_worker.errors import InvalidInputError, KnowledgeError
from knowledge_worker.ports import Observer, Operation

from .auth import Tokens, is_hook, needed_permission
from .errors import error_response
from .paths import BASE, request_path

_LOGGED_PATH_MAX_CHARS: Final = 300
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_QUIET_PATHS: Final = ("/healthz", "/readyz", "/metrics")
_OUTSIDE: Final = "none"
"""The route of a request that none took."""
_log = structlog.get_logger()


class RequestLog:
    """One log line and one observation a request, and the last net under every exception.

    Neither query nor token is told.
    """

    def __init__(self, app: ASGIApp, *, observer: Observer) -> None:
        self._app = app
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        number = _request_id(scope)
        facts: dict[str, Any] = {"method": scope["method"]}
        began = time.monotonic()

        async def numbered(message: Message) -> None:
            if message["type"] == "http.response.start":
                facts["status"] = int(message["status"])
                MutableHeaders(scope=message)["X-Request-ID"] = number
            await send(message)

        with (
            structlog.contextvars.bound_contextvars(request_id=number),
            self._observer.during(Operation.REQUEST, carrier=_text_headers(scope), method=scope["method"]) as seen,
        ):
            try:
                await self._app({**scope, "knowledge.facts": facts}, receive, numbered)
            except Exception as error:
                if "status" in facts:
                    raise  # half an answer is out; only closing the connection tells the client
                await error_response(error)(scope, receive, numbered)
            finally:
                route = facts.pop("route", _OUTSIDE)
                seen.note(route=route, status=facts.get("status", HTTPStatus.INTERNAL_SERVER_ERROR.value))
                quiet = facts.get("path") in _QUIET_PATHS and facts.get("status") == HTTPStatus.OK
                write = _log.debug if quiet else _log.info
                write("request", duration_ms=round((time.monotonic() - began) * 1000), **facts)


class Gate:
    """Authorise, then hand the canonical path to the router."""

    def __init__(self, app: ASGIApp, *, tokens: Tokens, root_path: str) -> None:
        self._app = app
        self._tokens = tokens
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            admitted = self._admit(scope)
        except KnowledgeError as error:
            await error_response(error)(scope, receive, send)
            return
        try:
            await self._app(admitted, receive, _without_body(send) if scope["method"] == "HEAD" else send)
        finally:
            _note_route(scope, admitted)

    def _admit(self, scope: Scope) -> Scope:
        """The scope for the router.

        Raises:
            UnauthenticatedError: below ``/knowledge``, webhooks apart, without a valid token.
            PermissionDeniedError: the token lacks the permission.
            InvalidInputError: a segment of the path cannot be decoded.
        """
        path = request_path(scope, root_path=self._root_path)
        facts: dict[str, Any] = scope.get("knowledge.facts", {})
        facts["path"] = path.canonical[:_LOGGED_PATH_MAX_CHARS]
        if path.below_base is not None and not is_hook(scope["method"], path.below_base):
            needed = needed_permission(scope["method"], path.below_base)
            facts["token"] = self._tokens.authorise(scope["headers"], needed).id
        if None in path.segments:
            raise InvalidInputError("A part of the path is no percent-encoded UTF-8 text.")
        # HTTP asks that every GET also answers HEAD; the router knows GET only.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        return {**scope, "method": method, "root_path": path.root, "path": path.root + path.canonical}


def _request_id(scope: Scope) -> str:
    """The number a proxy gave the request, or a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"").decode("latin-1")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _note_route(scope: Scope, admitted: Scope) -> None:
    """Tell the observer which route the router took, by its template: there are few, whatever callers ask for."""
    template = getattr(admitted.get("route"), "path_format", None)
    if template is None:
        return
    facts: dict[str, Any] = scope.get("knowledge.facts", {})
    base = f"/{BASE}"
    # A router below a prefix knows its own part only.
    below_base = facts["path"].startswith(f"{base}/") and not template.startswith(f"{base}/")
    facts["route"] = base + template if below_base else template


def _text_headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _without_body(send: Send) -> Send:
    async def headers_only(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return headers_only
