"""``knowledge-worker api``: the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from knowledge_worker.cli.network import is_loopback, listening_socket
from knowledge_worker.cli.options import opened, setting, settings_from, shared_options
from knowledge_worker.errors import ConfigurationError

if TYPE_CHECKING:
    from knowledge_worker.config import Settings
    from knowledge_worker.knowledge import Knowledge

STOP_S = 10
"""Requests under way get this long when the process is asked to stop."""


@click.command()
@setting("--host", help="Where it listens. Default: 127.0.0.1")
@setting("--port", type=click.IntRange(0, 65535), help="Its port. Default: 8100")
@setting("--root-path", metavar="PATH", help="A path prefix that a proxy puts before /knowledge.")
@shared_options
@click.pass_context
def api(ctx: click.Context) -> None:
    """Run the HTTP API: search, collections, /healthz and /readyz.

    Start as many as requests need. KNOWLEDGE_TOKENS says who may use it; without any it refuses everything.
    """
    settings = settings_from(ctx)
    refuse_open_development(settings)
    with opened(settings, server=True) as knowledge:
        from knowledge_worker.cli.check import refuse_wrong_declarations

        refuse_wrong_declarations(knowledge)
        _serve(knowledge, settings)


def refuse_open_development(settings: Settings) -> None:
    """Development tokens stand in files and on screens, so they open nothing that others can reach.

    Raises:
        ConfigurationError: development on an address that is not loopback.
    """
    if settings.dev and not is_loopback(settings.host):
        raise ConfigurationError(
            f"KNOWLEDGE_DEV is for loopback, not for {settings.host}: set KNOWLEDGE_TOKENS and unset KNOWLEDGE_DEV."
        )


def _serve(knowledge: Knowledge, settings: Settings) -> None:
    import contextlib

    import structlog
    import uvicorn

    from knowledge_worker._bundled import load_api
    from knowledge_worker.cli.running import stop_on_sigterm

    listener = listening_socket(settings.host, settings.port, "--port", "KNOWLEDGE_PORT")
    app = load_api().create_app(knowledge)
    # No access log: addresses hold queries. The application logs its requests without them.
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=STOP_S)
    structlog.get_logger().info("api_started", host=settings.host, port=listener.getsockname()[1])
    # uvicorn raises a signal again after its orderly stop; ours then ends the process with code 0.
    stop_on_sigterm()
    with listener, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
