"""The tools as an MCP server, by the official SDK; whatever transport it then speaks over.

What a client does with the answers is its own; so that it can know, every answer says in ``_meta`` whether it taints.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final, cast

import anyio
import mcp_types as types
import structlog
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from knowledge_worker.errors import KnowledgeError
from knowledge_worker.tools._bridge import in_thread
from knowledge_worker.tools.marking import as_json
from knowledge_worker.tools.scope import scope_of
from knowledge_worker.tools.taint import metadata_of
from knowledge_worker.tools.tool import NOT_INSTRUCTIONS, KnowledgeTool, KnowledgeTools

SCHEME: Final = "knowledge://"
PROGRESS_S: Final = 1.0
"""How long a call may take before its progress is reported, and how often it is then."""

Context = ServerRequestContext[Any, Any]
_log = structlog.get_logger()


def mcp_server(tools: KnowledgeTools) -> Server[Any]:
    """See :func:`knowledge_worker.tools.mcp_server`."""
    handlers = _Handlers(tools)
    return Server(
        "knowledge-worker",
        version=version("knowledge-worker"),
        title="Knowledge",
        instructions=f"Search reference material, then read more of what was found. {NOT_INSTRUCTIONS}",
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_read_resource=handlers.read_resource,
    )


class _Handlers:
    def __init__(self, tools: KnowledgeTools) -> None:
        self._tools = tools
        self._by_name = {tool.name: tool for tool in tools}

    async def list_tools(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        scope = await in_thread(scope_of, self._tools.backend, self._tools.collections)
        return types.ListToolsResult(tools=[_described(tool, open_world=scope.tainted) for tool in self._tools])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._by_name.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no such tool; there are: {', '.join(self._by_name)}.")
        began = time.monotonic()
        async with _progress(context):
            result = await in_thread(tool.call, params.arguments)
        _log.info(
            "knowledge_tool_called",
            tool=tool.name,
            tainted=result.tainted,
            code=result.data["error"]["code"] if result.is_error else None,
            duration_ms=round(1000 * (time.monotonic() - began)),
        )
        answer = types.CallToolResult(content=[types.TextContent(text=result.text)], is_error=result.is_error)
        answer.meta = cast("Any", metadata_of(result))
        return answer

    async def list_resources(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        # Titles and descriptions come from code only: others may write those of managed collections.
        declared = self._tools.backend.declared
        listed: list[types.Resource] = []
        for name in self._tools.collections:
            facts = declared.get(name)
            listed.append(
                types.Resource(
                    uri=SCHEME + name,
                    name=name,
                    title=facts.title if facts else None,
                    description=facts.description if facts else None,
                    mime_type="application/json",
                )
            )
        return types.ListResourcesResult(resources=listed)

    async def read_resource(
        self, _context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        name = str(params.uri).removeprefix(SCHEME).rstrip("/")
        if name not in self._tools.collections:
            raise MCPError(types.INVALID_PARAMS, "There is no such resource.")
        text = await in_thread(self._view, name)
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, mime_type="application/json", text=text)]
        )

    def _view(self, name: str) -> str:
        """What a collection is and how it is doing."""
        scope = scope_of(self._tools.backend, (name,))
        try:
            view = self._tools.backend.view(name)
        except KnowledgeError as error:
            _log.warning("knowledge_resource_failed", collection=name, code=error.code)
            raise MCPError(types.INTERNAL_ERROR, "The collection cannot be looked at right now.") from None
        return as_json({**view, "trusted": not scope.tainted}, hostile=scope.tainted)


def _described(tool: KnowledgeTool, *, open_world: bool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=open_world
        ),
    )


@asynccontextmanager
async def _progress(context: Context) -> AsyncGenerator[None]:
    """Report every so often that a call is still at work; clients that did not ask hear nothing."""

    async def report() -> None:
        seconds = 0.0
        while True:
            await anyio.sleep(PROGRESS_S)
            seconds += PROGRESS_S
            await context.session.report_progress(seconds, message=f"at work for {seconds:.0f} s")

    async with anyio.create_task_group() as group:
        group.start_soon(report)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
