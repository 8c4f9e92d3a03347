"""The HTTP side of a scripted provider: OpenAI's embeddings protocol and the control endpoints."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from knowledge_worker.testing.provider_ledger import ProviderLedger, RecordedRequest, Ticket
from knowledge_worker.testing.provider_rules import Rule, answer_body, error_body


class ProviderServer(ThreadingHTTPServer):
    """Listens; a thread for each connection, kept alive between requests."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], ledger: ProviderLedger) -> None:
        self.ledger = ledger
        self._connections: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._changed:
            self._connections.discard(request)
            self._changed.notify_all()
        super().shutdown_request(request)

    def break_connections(self) -> None:
        """Cut what is still open, so that no thread is left waiting for a client."""
        with self._changed:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def wait_for_connections(self, count: int, timeout_s: float) -> bool:
        """Whether there were ``count`` open connections at some moment before the time was up."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._connections) == count, timeout_s)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that gave up, or was killed, is what many tests are about.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: ProviderServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        ledger = self.server.ledger
        if self.path == "/_state":
            self._send(200, json.dumps(ledger.state()).encode())
        elif self.path.endswith("/models"):
            model = {"id": "test-embedding", "object": "model", "created": 0, "owned_by": "test"}
            self._send(200, json.dumps({"object": "list", "data": [model]}).encode())
        else:
            self._send(404, b'{"error": {"message": "no such path", "code": "not_found", "type": null}}')

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path.startswith("/_"):
            self._control(raw)
            return
        try:
            asked = json.loads(raw)
            inputs = asked["input"]
            texts = (inputs,) if isinstance(inputs, str) else tuple(str(text) for text in inputs)
            model = str(asked["model"])
        except (ValueError, KeyError, TypeError):
            self._send(400, b'{"error": {"message": "not understood", "code": null, "type": "invalid_request_error"}}')
            return
        if not self.path.endswith("/embeddings") or not texts:
            self._send(404 if texts else 400, b'{"error": {"message": "no", "code": "not_found", "type": null}}')
            return
        request = RecordedRequest(
            at=time.time(),
            texts=texts,
            model=model,
            encoding_format=str(asked.get("encoding_format", "float")),
            dimensions=asked.get("dimensions"),
            authorized="Authorization" in self.headers,
            parallel=0,
        )
        ledger = self.server.ledger
        ticket = ledger.begin(request)
        try:
            self._answer(request, ticket)
        finally:
            ledger.end()

    def _answer(self, request: RecordedRequest, ticket: Ticket) -> None:
        ledger, rule = self.server.ledger, ticket.rule
        ledger.wait(rule.delay_s + ledger.delay_s)
        if rule.hold:
            ledger.wait_for_release(ticket)
        if rule.status == 200:
            body = answer_body(
                request.texts,
                model=request.model,
                dimensions=request.dimensions or ledger.dimensions,
                as_base64=request.encoding_format == "base64",
                garbage=rule.body,
            )
        else:
            body = error_body(rule, request.texts, self.headers.get("Authorization", ""))
        # Before the bytes leave, so that a caller that has its answer finds it counted.
        ledger.answered(ticket, rule.status)
        self._send(rule.status, body, rule)

    def _control(self, raw: bytes) -> None:
        ledger = self.server.ledger
        if self.path == "/_script":
            try:
                given = json.loads(raw)
                rules = [
                    Rule(**rule) for rule in cast("list[dict[str, Any]]", given if isinstance(given, list) else [given])
                ]
            except (ValueError, TypeError) as error:
                self._send(400, json.dumps({"error": {"message": str(error)}}).encode())
                return
            if rules:
                ledger.script(*rules)
            else:
                ledger.clear_script()
        elif self.path == "/_release":
            ledger.release()
        elif self.path == "/_reset":
            ledger.reset()
        else:
            self._send(404, b'{"error": {"message": "no such path"}}')
            return
        self._send(200, b"{}")

    def _send(self, status: int, body: bytes, rule: Rule | None = None) -> None:
        headers = {"Content-Type": "application/json", "x-request-id": "req_test", **(rule.headers if rule else {})}
        cut_off = rule is not None and rule.body == "cut_off"
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        start = f"HTTP/1.1 {status} Scripted\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")
        answer = start + (body[: len(body) // 2] if cut_off else body)
        if rule is not None and rule.trickle_s > 0:
            for byte in answer:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                self.server.ledger.wait(rule.trickle_s)
        else:
            self.wfile.write(answer)
        self.close_connection = self.close_connection or cut_off

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: requests are recorded, and texts do not belong in a log."""
