"""Ports: finding a free one, and telling who has the one we wanted."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from knowledge_worker.errors import ServiceUnavailableError

LOOPBACK = "127.0.0.1"


def free_port(preferred: int = 0) -> int:
    """A port of loopback on which nobody listens: ``preferred`` if possible, else one that the system picks."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            # As servers do it: connections that were closed a moment ago are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
                probe.listen(1)
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServiceUnavailableError(f"No port of {LOOPBACK} is free.")


def listener(port: int) -> str | None:
    """The process that listens on ``port``, such as ``python (4711)``; None where that is not easily known."""
    if sys.platform != "linux":
        return None
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not sockets:
        return None
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if any(str(descriptor.readlink()) in sockets for descriptor in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} ({process.name})"
        except OSError:
            continue  # it ended meanwhile, or it is another user's
    return None


def _listening_inodes(port: int) -> set[str]:
    """From /proc/net/tcp: local address in column 1 as ``hex:hex``, state in column 3 (0A listens), inode in 9."""
    inodes: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            columns = row.split()
            if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                inodes.add(columns[9])
    return inodes
