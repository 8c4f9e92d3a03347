"""Metrics over HTTP for a process that serves nothing else, and who may read them."""

from __future__ import annotations

import errno
import hashlib
import hmac
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import structlog
from pydantic import SecretStr

from knowledge_worker.telemetry.prometheus import CONTENT_TYPE

log = structlog.get_logger()

PORTS_TRIED: Final = 100
"""Workers of one machine that each find a port of their own."""
IDLE_S: Final = 10.0
"""A client that sends nothing for so long is left."""


def may_read(token: SecretStr | None, authorization: str) -> bool:
    """Whether a request may read metrics; takes as long for a nearly right token as for a wrong one.

    Args:
        token: ``KNOWLEDGE_METRICS_TOKEN``; None lets everybody read them.
        authorization: the header of the request, empty without one.
    """
    if token is None:
        return True
    scheme, _, given = authorization.partition(" ")
    known = hmac.compare_digest(_digest(token.get_secret_value()), _digest(given.strip(" ")))
    return known and scheme.lower() == "bearer"


class MetricsServer:
    """Answers ``GET /metrics`` from a thread of its own until the process ends, on the first free port.

    Args:
        exposition: what is answered.
        port: the first one that is tried; 0 for any free one.
        token: what readers send; None for nothing.

    Raises:
        OSError: none of the ports is free, or the address is none of this machine.
    """

    def __init__(self, exposition: Callable[[], bytes], *, host: str, port: int, token: SecretStr | None) -> None:
        class Handler(_Handler):
            read = staticmethod(exposition)
            secret = token

        self._server = _listening(host, port, Handler)
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever leaves in the middle of an answer is no event."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    read: Callable[[], bytes]
    secret: SecretStr | None
    timeout = IDLE_S
    server_version = "knowledge-worker"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer the metrics."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND)
        elif not may_read(self.secret, self.headers.get("Authorization", "")):
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            body = self.read()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """A look at the metrics is no event."""


def _listening(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    kind = _Server6 if ":" in host else _Server
    for number in range(port, min(port + PORTS_TRIED, 65_536)) if port else [0]:
        try:
            return kind((host, number), handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"the ports {port} to {port + PORTS_TRIED - 1} are in use")


def _digest(token: str) -> bytes:
    """Equal lengths for any token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
