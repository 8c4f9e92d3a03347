"""``knowledge-worker check``: what is wrong with declarations, settings and servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from knowledge_worker.cli import exit_codes
from knowledge_worker.cli.options import json_option, opened, settings_from, shared_options, without_servers
from knowledge_worker.cli.output import echo_json, safe_line
from knowledge_worker.errors import ConfigurationError

if TYPE_CHECKING:
    from knowledge_worker.config import Settings
    from knowledge_worker.knowledge import Knowledge


@click.command()
@json_option
@shared_options
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Say what would keep a start from working, one problem a line; exit code 1 when there is any.

    It reads only and never embeds. Without the address of a database and a Redis the declarations alone are checked.
    """
    settings = settings_from(ctx, needs=())
    servers = settings.database_url is not None and settings.redis_url is not None
    problems = _problems(settings, servers=servers)
    if as_json:
        echo_json({"problems": problems, "servers": servers})
    else:
        for problem in problems:
            click.echo(safe_line(problem))
        if not problems:
            click.echo("All is well." if servers else "The declarations are well; no servers were named to check.")
    ctx.exit(exit_codes.FAILED if problems else exit_codes.OK)


def refuse_wrong_declarations(knowledge: Knowledge) -> None:
    """Keep a process from starting with declarations that cannot work.

    Raises:
        ConfigurationError: the problems, on one line; ``check`` shows them one by one.
    """
    problems = knowledge.check(servers=False)
    if problems:
        more = f" (and {len(problems) - 1} more: knowledge-worker check)" if len(problems) > 1 else ""
        raise ConfigurationError(problems[0] + more)


def _problems(settings: Settings, *, servers: bool) -> list[str]:
    try:
        with opened(without_servers(settings)) as knowledge:
            return knowledge.check(servers=servers)
    except ConfigurationError as error:
        return [error.message]
