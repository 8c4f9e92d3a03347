"""One service of real processes for all tests of this folder: an API, a worker, beat, their servers, a provider."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from knowledge_worker.embedded.servers import start_servers
from knowledge_worker.testing.deployment import Deployment
from knowledge_worker.testing.provider import ScriptedProvider

WRITER = "writer-token-0123456789"
READER = "reader-token-0123456789"
POWERLESS = "nobody-token-0123456789"
ALMIGHTY = "anyone-token-0123456789"
HOOK_SECRET = "hook-secret-0123456789"
TOKENS = [
    {"value": WRITER, "id": "writer", "permissions": ["knowledge:*"]},
    {"value": READER, "id": "reader", "permissions": ["knowledge:read"]},
    {"value": POWERLESS, "id": "nobody", "permissions": ["knowledge"]},
    {"value": ALMIGHTY, "id": "anyone", "permissions": ["*"]},
]


@dataclass(frozen=True)
class Service:
    """A running service; it declares the collection ``docs`` and the webhook ``docs-push``."""

    deployment: Deployment

    writer = WRITER
    reader = READER
    powerless = POWERLESS
    almighty = ALMIGHTY
    hook_secret = HOOK_SECRET

    @property
    def url(self) -> str:
        return self.deployment.url

    @property
    def port(self) -> int:
        return self.deployment.port

    def client(self) -> httpx.Client:
        """A client that may do everything below ``/knowledge``."""
        headers = {"Authorization": f"Bearer {WRITER}"}
        return httpx.Client(base_url=f"{self.url}/knowledge/", headers=headers, timeout=60)

    @contextmanager
    def another_api(self, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
        """One more API process of the same service, with other settings; its process and its address."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        process = self.deployment.start("api", KNOWLEDGE_PORT=str(port), **settings)
        url = f"http://127.0.0.1:{port}"
        try:
            self.deployment.until(lambda: _lives(url), what="another API listens", process=process)
            yield process, url
        finally:
            process.terminate()
            process.wait()


def _lives(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service, ready, with ``docs`` indexed; tests use collections of their own."""
    folder: Path = tmp_path_factory.mktemp("service")
    (folder / "docs").mkdir()
    (folder / "docs" / "setup.md").write_text("# Setting up\n\nInstall the package, then run it.\n")
    (folder / "docs" / "refunds.md").write_text("# Refunds\n\nA refund takes five working days.\n")
    servers = start_servers(folder / "data")
    try:
        assert servers.database_url is not None
        assert servers.redis_url is not None
        with ScriptedProvider() as provider:
            environment = {
                "KNOWLEDGE_MODEL": "fake/model-a",
                "KNOWLEDGE_PROVIDERS": json.dumps({"fake": {"base_url": provider.base_url}}),
                "KNOWLEDGE_DOCS": str(folder / "docs"),
                "KNOWLEDGE_TOKENS": json.dumps(TOKENS),
                "KNOWLEDGE_HOOKS": json.dumps({"docs-push": {"secret": HOOK_SECRET, "collections": ["docs"]}}),
            }
            with Deployment(
                folder / "run",
                database_url=servers.database_url,
                redis_url=servers.redis_url,
                environment=environment,
            ) as deployment:
                deployment.run("migrate")
                deployment.start_api()
                deployment.start("worker")
                deployment.start("beat")
                service = Service(deployment)
                with service.client() as client:
                    deployment.until(lambda: client.get(f"{service.url}/readyz").is_success, what="all is there")
                    deployment.until(
                        lambda: client.get("collections/docs").json()["status"] == "ready", what="docs is indexed"
                    )
                yield service
    finally:
        servers.stop()
