"""``knowledge-worker services``: the embedded servers alone, for processes that are started by hand."""

from __future__ import annotations

import shlex

import click

from knowledge_worker.cli.options import set_up_logging, settings_from, shared_options
from knowledge_worker.embedded.servers import start_servers
from knowledge_worker.embedded.supervisor import Supervisor


@click.command()
@shared_options
@click.pass_context
def services(ctx: click.Context) -> None:
    """Run only the embedded PostgreSQL and Valkey.

    Prints two `export` lines for other shells, then runs until Ctrl-C or SIGTERM. The data and, where they are free,
    the ports stay the same from one start to the next; so do the passwords.

    \b
    Exit codes:
      0    stopped on request
      1    failed; the message says why
      2    wrong use or configuration
    """
    settings = settings_from(ctx, needs=())
    set_up_logging(settings, server=True)
    with Supervisor(logs=settings.data_dir / "logs", write=_say) as supervisor:
        servers = start_servers(settings.data_dir)
        try:
            supervisor.watch(servers.parts)
            click.echo(f"export KNOWLEDGE_DATABASE_URL={shlex.quote(servers.database_url or '')}")
            click.echo(f"export KNOWLEDGE_REDIS_URL={shlex.quote(servers.redis_url or '')}")
            code = supervisor.run()
            supervisor.stop()
        finally:
            servers.stop()
    ctx.exit(code)


def _say(_name: str, line: str) -> None:
    click.echo(line, err=True)
