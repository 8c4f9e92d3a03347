"""``knowledge-worker mcp``: the tools for MCP clients."""

from __future__ import annotations

import importlib
import os
import signal
from typing import TYPE_CHECKING, Literal

import click

from knowledge_worker.cli.network import listening_socket
from knowledge_worker.cli.options import opened, setting, settings_from, shared_options
from knowledge_worker.errors import ConfigurationError

if TYPE_CHECKING:
    from knowledge_worker.config import Settings
    from knowledge_worker.knowledge import Knowledge
    from knowledge_worker.tools import KnowledgeTools
    from knowledge_worker.tools.mcp_http import Authorise

STOP_S = 10
"""Requests under way get this long when the process is asked to stop."""


@click.command()
@click.option("--collection", "collections", multiple=True, metavar="NAME", help="What may be searched; repeatable.")
@click.option(
    "--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True, help="How to be reached."
)
@setting("--host", help="Where it listens, over HTTP. Default: 127.0.0.1")
@click.option("--port", type=click.IntRange(0, 65535), default=8200, show_default=True, help="Its port, over HTTP.")
@click.option("--top-k", type=int, default=5, show_default=True, help="Passages when the model does not say.")
@click.option("--min-score", type=float, metavar="SCORE", help="Only passages of at least this cosine similarity.")
@shared_options
@click.pass_context
def mcp(
    ctx: click.Context,
    *,
    collections: tuple[str, ...],
    transport: Literal["stdio", "http"],
    port: int,
    top_k: int,
    min_score: float | None,
) -> None:
    """Serve knowledge_search and knowledge_read over MCP, for editors, assistants and agents.

    Over stdio the client starts this command. Over HTTP it answers at /mcp, to the tokens of KNOWLEDGE_TOKENS that
    have the permission knowledge:read. Name each collection that the client may search.
    """
    settings = settings_from(ctx)
    with opened(settings, server=True) as knowledge:
        from knowledge_worker.tools import knowledge_tools

        if not collections:
            raise ConfigurationError(_nothing_named(knowledge))
        tools = knowledge_tools(knowledge, collections=collections, top_k=top_k, min_score=min_score)
        if transport == "http":
            _serve_http(tools, settings, port)
        else:
            _serve_stdio(tools, knowledge)


def _nothing_named(knowledge: Knowledge) -> str:
    names = [one.name for one in knowledge.declared]
    hint = " ".join(f"--collection {name}" for name in names) or "--collection NAME"
    return f"Name what MCP clients may search: {hint}."


def _serve_stdio(tools: KnowledgeTools, knowledge: Knowledge) -> None:
    import anyio
    import structlog

    from knowledge_worker.tools import mcp_server

    server = mcp_server(tools)
    from mcp.server.stdio import stdio_server

    def stop(_number: int, _frame: object) -> None:
        # A thread waits for the next line of standard input and nothing can wake it, so the process just ends.
        knowledge.close()
        os._exit(0)

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    structlog.get_logger().info("mcp_started", transport="stdio", collections=tools.collections)
    anyio.run(serve)


def _serve_http(tools: KnowledgeTools, settings: Settings, port: int) -> None:
    import structlog
    import uvicorn

    from knowledge_worker.cli.running import stop_on_sigterm
    from knowledge_worker.tools import mcp_server

    if not settings.tokens:
        raise ConfigurationError(
            "Over HTTP it answers only to tokens: set KNOWLEDGE_TOKENS, with the permission knowledge:read."
        )
    server = mcp_server(tools)
    from knowledge_worker.tools.mcp_http import mcp_app

    app = mcp_app(server, authorise=_authorise(settings), body_limit=settings.body_limit)
    listener = listening_socket(settings.host, port, "--port", "--port 0")
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=STOP_S)
    structlog.get_logger().info(
        "mcp_started",
        transport="http",
        host=settings.host,
        port=listener.getsockname()[1],
        collections=tools.collections,
    )
    stop_on_sigterm()
    with listener:
        uvicorn.Server(config).run(sockets=[listener])


def _authorise(settings: Settings) -> Authorise:
    """The same tokens, checked in the same way, as those of the API."""
    from knowledge_worker._bundled import API_MODULE, load_api
    from knowledge_worker.domain.permission import READ

    load_api()
    tokens = importlib.import_module(f"{API_MODULE}.auth").Tokens(settings.tokens)
    return lambda headers: tokens.authorise(headers, READ)
