"""``knowledge-worker services``: the embedded servers alone, for processes that are started by hand."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from knowledge_worker.config import load_settings
from knowledge_worker.embedded.servers import start_servers
from knowledge_worker.embedded.supervisor import Supervisor


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the servers keep their data.  [env: KNOWLEDGE_DATA_DIR; default: .knowledge]",
)
def services(data_dir: Path | None) -> None:
    """Run only the embedded PostgreSQL and Valkey.

    Prints two `export` lines for other shells, then runs until Ctrl-C or SIGTERM. The data and the addresses stay the
    same from one start to the next.

    Exit codes: 0 stopped on request, 1 a server failed, 2 wrong use or configuration.
    """
    settings = load_settings(data_dir=data_dir)
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
    if code:
        raise SystemExit(code)


def _say(_name: str, line: str) -> None:
    click.echo(line, err=True)
