"""``knowledge-worker worker``: a process that reads sources and embeds."""

from __future__ import annotations

import click

from knowledge_worker.cli.options import opened, setting, settings_from, shared_options


@click.command()
@setting("--concurrency", type=click.IntRange(min=1), help="Tasks it runs at once, as threads.")
@setting("--queues", metavar="NAMES", help="The queues it takes work from, joined by ','. Default: control,sync,embed")
@setting(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Where it shows its metrics: the first free port from there on. Default: 8101",
)
@shared_options
@click.pass_context
def worker(ctx: click.Context) -> None:
    """Run a worker.

    It reads sources, embeds, and finds what is due when beat asks. Start as many as the work needs; any may be killed
    at any time. It waits for PostgreSQL and Redis and comes back by itself when they were away. SIGTERM stops it at
    the next step of its passes, which other workers then take up.
    """
    settings = settings_from(ctx)
    with opened(settings, server=True) as knowledge:
        from knowledge_worker.cli.check import refuse_wrong_declarations
        from knowledge_worker.worker import run_worker

        refuse_wrong_declarations(knowledge)
        code = run_worker(knowledge, settings)
    ctx.exit(code)
