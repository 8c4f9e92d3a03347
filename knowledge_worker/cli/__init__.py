"""The command ``knowledge-worker``: one command a file, loaded when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from knowledge_worker.cli.exit_codes import MEANINGS
from knowledge_worker.cli.options import environment_of, shared_options

COMMANDS: Final = {
    "up": "Run everything: servers, API, workers, beat and Flower.",
    "services": "Run only the embedded PostgreSQL and Valkey.",
    "api": "Run the HTTP API.",
    "worker": "Run a worker: it reads sources and embeds.",
    "beat": "Run the clock that asks workers what is due.",
    "flower": "Run Flower, a web page about workers and tasks.",
    "migrate": "Bring the database to this version's tables.",
    "check": "Say what is wrong with declarations and settings.",
    "status": "Show every collection and how it is doing.",
    "collections": "List, create and delete collections.",
    "documents": "Put, get, list, delete and import documents.",
    "sync": "Ask for a pass over a collection now.",
    "plan": "Show what a pass would do, without doing it.",
    "search": "Find passages by meaning.",
    "eval": "Measure how well questions with known documents are answered.",
    "passes": "Show the last passes of a collection.",
    "mcp": "Serve the tools to MCP clients, such as editors and assistants.",
}

_EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in MEANINGS)


class Commands(click.Group):
    """Imports a command's module when it is run; the list of commands imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All names, in the order of :data:`COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The command, or None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"knowledge_worker.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """List the commands with what they do."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@shared_options
@click.version_option(None, "--version", package_name="knowledge-worker", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, **_: Any) -> None:
    """Reference material for AI agents: indexed in the background, searched by meaning.

    Start with `knowledge-worker up --docs ./docs`, then ask with `knowledge-worker search "..."` in another terminal.
    Every option is also a variable; options win. They may stand before or after the command.
    """
    # An option before the command is the same as its variable, so that every command and its children see it.
    given = environment_of(ctx)
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    ctx.call_on_close(lambda: _restore(before))


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code."""
    from knowledge_worker.cli.running import run

    sys.exit(run(cli, argv))


def _restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
