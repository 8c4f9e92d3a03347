"""Traces of real processes, received by a real OTLP receiver."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from knowledge_worker.embedded.servers import Servers, start_servers
from knowledge_worker.testing.deployment import TOKEN, Deployment
from knowledge_worker.testing.provider import ScriptedProvider

pytestmark = pytest.mark.processes


class Receiver:
    """Takes what an OTLP exporter sends over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    receiver.spans += [span for scope in resource.scope_spans for span in scope.spans]
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[Servers]:
    servers = start_servers(tmp_path / "data")
    yield servers
    servers.stop()


@pytest.fixture
def traced(
    tmp_path: Path, own_servers: Servers, provider: ScriptedProvider, receiver: Receiver
) -> Iterator[Deployment]:
    assert own_servers.database_url is not None
    assert own_servers.redis_url is not None
    environment = {
        "KNOWLEDGE_MODEL": "fake/model-a",
        "KNOWLEDGE_PROVIDERS": json.dumps({"fake": {"base_url": provider.base_url}}),
        "KNOWLEDGE_METRICS_PORT": "",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    with Deployment(
        tmp_path / "run",
        database_url=own_servers.database_url,
        redis_url=own_servers.redis_url,
        environment=environment,
    ) as traced:
        traced.run("migrate")
        traced.start_api()
        yield traced


def test_one_trace_covers_the_request_the_task_and_the_call_of_the_provider(
    traced: Deployment, receiver: Receiver
) -> None:
    worker = traced.start("worker")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=f"{traced.url}/knowledge/", headers=headers, timeout=60) as client:
        client.post("collections", json={"name": "notes"}).raise_for_status()
        traced.until(lambda: client.get("collections/notes").json()["status"] == "ready", what="the first, empty pass")
        content = {"content": "apples are red and nobody else may know"}
        client.put("collections/notes/documents/a", json=content).raise_for_status()
        # No beat runs: without the message of the request nothing would be embedded.
        traced.until(lambda: client.get("collections/notes").json()["documents"]["ready"], what="it is ready")
        traced.until(lambda: receiver.named("embed model-a"), what="a call of the provider was told")
        client.get("search", params={"q": "which apples"}).raise_for_status()
        traced.until(lambda: receiver.named("search"), what="a search was told")

    (call,) = [span for span in receiver.named("embed model-a") if "search" not in path(receiver, span)]
    traced.until(lambda: len(path(receiver, call)) == 5, what="every span above the call was told")
    assert path(receiver, call) == [
        "embed model-a",
        "embed",
        "pass",
        "knowledge.sync",
        "PUT /knowledge/collections/{name}/documents/{id}",
    ]
    assert {span.trace_id for span in receiver.spans if span.trace_id == call.trace_id} == {call.trace_id}
    told = "\n".join(str(span) for span in receiver.spans)
    assert "apples" not in told, "neither a document nor a query"
    assert TOKEN not in told
    worker.terminate()
    assert worker.wait(60) == 0


def test_a_receiver_that_is_away_holds_nothing_up(traced: Deployment, receiver: Receiver) -> None:
    nowhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    worker = traced.start("worker", **nowhere)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=f"{traced.url}/knowledge/", headers=headers, timeout=60) as client:
        client.post("collections", json={"name": "notes"}).raise_for_status()
        client.put("collections/notes/documents/a", json={"content": "apples"}).raise_for_status()
        traced.until(
            lambda: client.get("collections/notes").json()["documents"]["ready"] == 1, what="the document is ready"
        )
    worker.terminate()
    assert worker.wait(60) == 0, "an orderly stop"


def path(receiver: Receiver, span: Span) -> list[str]:
    """The names from a span up to the first one of its trace, as far as they were told."""
    spans = {one.span_id: one for one in receiver.spans}
    names: list[str] = []
    found: Span | None = span
    while found is not None:
        names.append(found.name)
        found = spans.get(found.parent_span_id)
    return names
