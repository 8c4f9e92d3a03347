"""``knowledge-worker beat``: the clock that asks workers what is due."""

from __future__ import annotations

import click

from knowledge_worker.cli.options import set_up_logging, setting, settings_from, shared_options


@click.command()
@setting("--tick-ms", type=click.IntRange(min=100), help="How often workers are asked, in milliseconds. Default: 5000")
@shared_options
@click.pass_context
def beat(ctx: click.Context) -> None:
    """Run the clock.

    It sends one message every few seconds and decides nothing itself, so several of them do no harm. It keeps no
    file and waits for Redis when that is away.
    """
    settings = settings_from(ctx, needs=("redis",))
    set_up_logging(settings, server=True)
    import structlog

    from knowledge_worker.queue.celery import create_celery, leave_logging_to_us

    celery = create_celery(settings)
    leave_logging_to_us()
    structlog.get_logger().info("beat_started", tick_ms=settings.tick_ms)
    celery.Beat(scheduler="celery.beat:Scheduler", pidfile=None, loglevel=settings.log_level, quiet=True).run()
