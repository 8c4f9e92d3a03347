"""One HTTP request over a bare socket: its target is sent as it is given, where HTTP libraries tidy paths up."""

from __future__ import annotations

import json
import socket
from typing import Any


def exchange(
    port: int, target: str, *, method: str = "GET", headers: tuple[str, ...] = (), body: bytes = b""
) -> tuple[int, dict[str, str], Any]:
    """Send a request to this machine and read the answer to its end.

    Args:
        target: what stands between method and version, sent without any change.
        headers: whole lines, such as ``Content-Length: 2``; Host and Connection are added.
        body: sent after the headers, which have to say how long it is.

    Returns:
        Status, headers by their names in lower case, and the content: parsed when it is a JSON object, else bytes.
    """
    lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall("\r\n".join(lines).encode("latin-1") + body)
        received = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, content = received.partition(b"\r\n\r\n")
    status_line, *header_lines = head.decode("latin-1").split("\r\n")
    answered = {name.lower(): value for name, _, value in (line.partition(": ") for line in header_lines)}
    return int(status_line.split()[1]), answered, json.loads(content) if content.startswith(b"{") else content
