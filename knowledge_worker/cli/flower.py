"""``knowledge-worker flower``: a web page about workers and tasks."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any

import click

from knowledge_worker.cli.network import is_loopback, listening_socket
from knowledge_worker.cli.options import set_up_logging, setting, settings_from, shared_options

if TYPE_CHECKING:
    from knowledge_worker.config import Settings

TASK_COLUMNS = "name,args,state,result,received,started,runtime,worker"
FORGET_WORKERS_S = 600
"""Workers have a new name at every start; those that are gone leave the page after this."""


@click.command()
@setting("--host", help="Where it listens; only loopback without a password. Default: 127.0.0.1")
@setting("--flower-port", type=click.IntRange(0, 65535), help="Its port. Default: 5555")
@shared_options
@click.pass_context
def flower(ctx: click.Context) -> None:
    """Run Flower: workers, queues, and each task with its collection, runtime and outcome.

    KNOWLEDGE_FLOWER_BASIC_AUTH=user:password protects it. Without one it listens on loopback only, because its pages
    can stop workers. What it knows is in memory; whether work is done is a question for `status`.
    """
    settings = settings_from(ctx, needs=("redis",))
    set_up_logging(settings, server=True)
    address = "127.0.0.1" if settings.flower_basic_auth is None and not is_loopback(settings.host) else settings.host
    _serve(settings, address)


def _serve(settings: Settings, address: str) -> None:
    import structlog
    from flower.app import Flower
    from flower.command import extract_settings
    from flower.options import default_options as options
    from flower.urls import settings as application_settings
    from tornado.httpserver import HTTPServer

    from knowledge_worker.cli.running import stop_on_sigterm
    from knowledge_worker.queue.celery import create_celery, leave_logging_to_us

    # Its API could stop workers and start tasks without a password; nothing in our environment may open it.
    os.environ.pop("FLOWER_UNAUTHENTICATED_API", None)
    values: dict[str, Any] = {
        "port": settings.flower_port,
        "address": address,
        "tasks_columns": TASK_COLUMNS,
        "purge_offline_workers": FORGET_WORKERS_S,
        "max_tasks": 10_000,
    }
    if settings.flower_basic_auth is not None:
        values["basic_auth"] = [settings.flower_basic_auth.get_secret_value()]
    for name, value in values.items():
        setattr(options, name, value)
    extract_settings()
    leave_logging_to_us()
    celery = create_celery(settings)
    listener = listening_socket(address, settings.flower_port, "--flower-port", "KNOWLEDGE_FLOWER_PORT")
    listener.setblocking(False)
    page: Any = Flower(capp=celery, options=options, **application_settings)
    HTTPServer(page).add_sockets([listener])
    atexit.register(page.stop)
    stop_on_sigterm()
    structlog.get_logger().info(
        "flower_started",
        host=address,
        port=listener.getsockname()[1],
        basic_auth=settings.flower_basic_auth is not None,
    )
    page.start()
