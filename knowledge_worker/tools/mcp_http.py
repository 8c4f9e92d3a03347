"""The MCP server over streamable HTTP, behind bearer tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_worker.errors import KnowledgeError, PermissionDeniedError, UnauthenticatedError

PATH: Final = "/mcp"
HEALTH: Final = "/healthz"

Headers = Iterable[tuple[bytes, bytes]]
Authorise = Callable[[Headers], object]
"""Raises :class:`UnauthenticatedError` or :class:`PermissionDeniedError`."""


def mcp_app(server: Server[Any], *, authorise: Authorise, body_limit: int) -> ASGIApp:
    """The server as an ASGI application at ``/mcp``; stateless, so that any number of processes may serve.

    Args:
        authorise: looks at the headers of every request but those of ``/healthz``.
        body_limit: the most bytes of a request.
    """
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=body_limit,
        # A page in a browser cannot know the token, whatever name it reached us by; other origins are refused below.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return _Gate(app, authorise)


class _Gate:
    """Says who may come in, before anything is read."""

    def __init__(self, app: ASGIApp, authorise: Authorise) -> None:
        self._app = app
        self._authorise = authorise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] == HEALTH:
            await _answer(send, 200, {"status": "ok"})
            return
        try:
            self._authorise(scope["headers"])
        except UnauthenticatedError as error:
            await _answer(send, 401, _problem(error), (b"www-authenticate", b"Bearer"))
        except PermissionDeniedError as error:
            await _answer(send, 403, _problem(error))
        else:
            if _is_foreign(scope["headers"]):
                await _answer(send, 403, {"error": {"code": "origin", "message": "Pages of other sites may not ask."}})
            else:
                await self._app(scope, receive, send)


def _is_foreign(headers: Headers) -> bool:
    """Whether a page of another site asks."""
    found = {name: value.decode("latin-1") for name, value in headers}
    origin = found.get(b"origin")
    return origin is not None and urlsplit(origin).netloc != found.get(b"host")


def _problem(error: KnowledgeError) -> dict[str, Any]:
    return {"error": {"code": error.code, "message": error.message}}


async def _answer(send: Send, status: int, body: dict[str, Any], *headers: tuple[bytes, bytes]) -> None:
    content = json.dumps(body).encode()
    start: Message = {
        "type": "http.response.start",
        "status": status,
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            *headers,
        ],
    }
    await send(start)
    await send({"type": "http.response.body", "body": content})
