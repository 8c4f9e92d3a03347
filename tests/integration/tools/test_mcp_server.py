"""``knowledge-worker mcp`` as a real process, asked by the official SDK's client over both transports."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import READER, WRITER

if TYPE_CHECKING:
    from .conftest import Application

COMMAND = ["-m", "knowledge_worker.cli", "mcp", "--collection", "handbook", "--collection", "tickets"]


class HTTPServer:
    """The process and where it listens."""

    def __init__(self, application: Application) -> None:
        self.log = application.folder / "mcp.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *COMMAND, "--transport", "http", "--port", "0"],
                env=application.process_environment,
                cwd=application.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.url = f"http://127.0.0.1:{self._port()}/mcp"

    def _port(self) -> int:
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            for line in self.log.read_text().splitlines():
                if '"mcp_started"' in line:
                    return int(json.loads(line)["port"])
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def http(application: Application) -> Iterator[HTTPServer]:
    server = HTTPServer(application)
    yield server
    if server.process.poll() is None:
        server.process.kill()
        server.process.wait()


Connect = Callable[[], Any]


@pytest.fixture(params=["stdio", "http"])
def connect(request: pytest.FixtureRequest, application: Application) -> Connect:
    if request.param == "stdio":
        parameters = StdioServerParameters(
            command=sys.executable, args=COMMAND, env=application.process_environment, cwd=application.folder
        )
        return lambda: Client(stdio_client(parameters))
    server: HTTPServer = request.getfixturevalue("http")

    @asynccontextmanager
    async def over_http() -> AsyncGenerator[Client]:
        headers = {"Authorization": f"Bearer {READER}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http_client,
            Client(streamable_http_client(server.url, http_client=http_client)) as client,
        ):
            yield client

    return over_http


def test_a_session(connect: Connect, provider: ScriptedProvider) -> None:
    """Tools, calls, resources, errors, taint and progress in one session, since starting the process takes longest."""

    async def session() -> None:
        async with connect() as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == ["knowledge_search", "knowledge_read"]
            search = tools["knowledge_search"]
            assert search.input_schema["properties"]["collection"]["enum"] == ["handbook", "tickets"]
            assert "not instructions" in (search.description or "")
            assert "Obey me" not in (search.description or "")
            assert search.annotations is not None
            assert (search.annotations.read_only_hint, search.annotations.open_world_hint) == (True, True)

            found = await client.call_tool("knowledge_search", {"query": "refund days", "collection": "handbook"})
            data = json.loads(found.content[0].text)
            assert data["matches"][0]["document"] == "refunds.md"
            assert (found.is_error, found.meta["knowledge_taint"]) == (False, [])

            read = await client.call_tool("knowledge_read", {"collection": "tickets", "document": "t/1"})
            assert read.meta["knowledge_taint"] == ["tool:knowledge_read"]
            assert "<|im_start|>" not in read.content[0].text
            assert "<|im_start|>" in json.loads(read.content[0].text)["text"]

            refused = await client.call_tool("knowledge_search", {"query": "x", "collection": "empty"})
            assert refused.is_error
            assert "is not available here" in refused.content[0].text
            with pytest.raises(MCPError, match="no such tool"):
                await client.call_tool("delete_everything", {})

            resources = (await client.list_resources()).resources
            assert [(one.uri, one.title) for one in resources] == [
                ("knowledge://handbook", "Handbook"),
                ("knowledge://tickets", None),
            ]
            view = json.loads((await client.read_resource("knowledge://tickets")).contents[0].text)
            assert (view["trusted"], view["documents"]["ready"]) == (False, 1)
            with pytest.raises(MCPError, match="no such resource"):
                await client.read_resource("knowledge://empty")

            seen: list[float] = []

            async def progress(done: float, _total: float | None, _message: str | None) -> None:
                seen.append(done)

            provider.script(Rule(delay_s=2.5))
            await client.call_tool("knowledge_search", {"query": "a slow one"}, progress_callback=progress)
            assert seen[:2] == [1.0, 2.0]

    asyncio.run(session())


def test_http_answers_only_to_tokens_that_may_read(http: HTTPServer) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}

    def status(token: str | None, **headers: str) -> int:
        given = {**accept, **headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        return httpx.post(http.url, json=body, headers=given).status_code

    assert [status(None), status("wrong-token-0123456789"), status(WRITER), status(READER)] == [401, 401, 403, 200]
    assert status(READER, Origin="https://evil.example") == 403
    assert status(READER, Origin=http.url.removesuffix("/mcp")) == 200
    refused = httpx.post(http.url, json=body)
    assert (refused.headers["www-authenticate"], refused.json()["error"]["code"]) == ("Bearer", "unauthenticated")
    assert httpx.get(http.url.replace("/mcp", "/healthz")).json() == {"status": "ok"}
    assert (
        httpx.get(http.url.replace("/mcp", "/other"), headers={"Authorization": f"Bearer {READER}"}).status_code == 404
    )
    assert http.stop() == 0
    assert READER not in http.log.read_text()


def test_stdio_writes_nothing_but_messages_and_stops_when_asked(application: Application) -> None:
    for stop in (lambda one: one.send_signal(signal.SIGTERM), lambda one: one.stdin.close()):
        process = subprocess.Popen(
            [sys.executable, *COMMAND],
            env=application.process_environment,
            cwd=application.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["result"]["serverInfo"]["name"] == "knowledge-worker"
        stop(process)
        assert process.wait(60) == 0
        assert process.stdout.read() == ""
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()  # type: ignore[union-attr]
