"""Options that every command has, and what becomes of them: settings, loggers and the Knowledge they describe."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import click

if TYPE_CHECKING:
    from knowledge_worker.config import Settings
    from knowledge_worker.knowledge import Knowledge

Function = TypeVar("Function", bound=Callable[..., Any])
Server = Literal["database", "redis"]

BOTH: Final[tuple[Server, ...]] = ("database", "redis")
SHARED: Final = ("app", "docs", "data_dir", "database_url", "redis_url", "log_format", "log_level")
_GIVEN: Final = "knowledge_worker.given"


def variable(name: str) -> str:
    """The variable of a setting."""
    return "KNOWLEDGE_" + name.upper()


def setting(flag: str, **attributes: Any) -> Callable[[Function], Function]:
    """An option that overrides the setting of its name; its help names the variable. The function does not get it."""
    name = flag.removeprefix("--").replace("-", "_")
    attributes["help"] = f"{attributes['help']}  [env: {variable(name)}]"
    return click.option(flag, name, expose_value=False, callback=_remember, **attributes)


def shared_options(function: Function) -> Function:
    """Add the options that every command has."""
    options = (
        setting("--app", metavar="MODULE:ATTRIBUTE", help="Where the declarations are, such as app:knowledge."),
        setting(
            "--docs",
            metavar="PATH",
            multiple=True,
            type=click.Path(path_type=Path),
            help="A folder to declare as a collection of its name; may be given several times.",
        ),
        setting(
            "--data-dir",
            metavar="PATH",
            type=click.Path(path_type=Path),
            help="Where `up` keeps its data; running servers are found there. Default: .knowledge",
        ),
        setting("--database-url", metavar="URL", help="PostgreSQL. The variable is safer: options show in `ps`."),
        setting("--redis-url", metavar="URL", help="Redis or Valkey. The variable is safer: options show in `ps`."),
        setting("--log-format", type=click.Choice(["auto", "console", "json"]), help="How to log."),
        setting("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="The least to log."),
    )
    for option in reversed(options):
        function = option(function)
    return function


json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for programs.")


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    if value is not None and value != ():
        given: dict[str, Any] = ctx.meta.setdefault(_GIVEN, {})
        given[str(parameter.name)] = value
    return value


def environment_of(ctx: click.Context) -> dict[str, str]:
    """The options given so far as variables."""
    given: dict[str, Any] = ctx.meta.pop(_GIVEN, {})
    environment: dict[str, str] = {}
    for name, value in given.items():
        parts = [str(part) for part in value] if isinstance(value, tuple) else [str(value)]
        if name == "docs" and any(os.pathsep in part for part in parts):
            raise click.UsageError(f"--{name} with {os.pathsep!r} in its path goes after the command.")
        environment[variable(name)] = os.pathsep.join(parts)
    return environment


def settings_from(ctx: click.Context, *, needs: tuple[Server, ...] = BOTH, **more: Any) -> Settings:
    """The settings of this command: options, then variables, then what a running ``up`` tells.

    Args:
        ctx: of the command.
        needs: the servers without whose address the command cannot work.
        more: further settings from options of the command; None means not given.

    Raises:
        ConfigurationError: a value breaks a rule, or a needed address is nowhere to be found.
    """
    from knowledge_worker.config import load_settings
    from knowledge_worker.errors import ConfigurationError

    settings = with_running_servers(load_settings(**{**ctx.meta.get(_GIVEN, {}), **more}))
    missing = [name for name in needs if getattr(settings, f"{name}_url") is None]
    if missing:
        variables = " and ".join(variable(f"{name}_url") for name in missing)
        raise ConfigurationError(
            f"Nothing runs in {settings.data_dir}: start `knowledge-worker up`, or set {variables}."
        )
    return settings


def with_running_servers(settings: Settings) -> Settings:
    """The settings, with the addresses and the default model of a running ``up`` or ``services`` where none are set."""
    from pydantic import SecretStr

    if settings.database_url is not None and settings.redis_url is not None:
        return settings
    from knowledge_worker.embedded.directory import running_servers

    running = running_servers(settings.data_dir)
    if running is None:
        return settings
    found: dict[str, object] = {
        name: SecretStr(url)
        for name, url in (("database_url", running.database_url), ("redis_url", running.redis_url))
        if url is not None and getattr(settings, name) is None
    }
    if settings.model is None and running.model is not None:
        found["model"] = running.model
    return settings.model_copy(update=found)


def without_servers(settings: Settings) -> Settings:
    """The settings with addresses that stand for nothing, for commands that connect to fewer servers than they name."""
    from pydantic import SecretStr

    nowhere = {"database_url": SecretStr("postgresql://localhost/none"), "redis_url": SecretStr("redis://localhost")}
    return settings.model_copy(update={name: url for name, url in nowhere.items() if getattr(settings, name) is None})


def set_up_logging(settings: Settings, *, server: bool) -> None:
    """Log as the settings say; a command that answers and leaves logs warnings only, unless told otherwise."""
    from knowledge_worker.log import configure_logging

    asked = server or "log_level" in settings.model_fields_set
    configure_logging(log_format=settings.log_format, level=settings.log_level if asked else "warning")


@contextmanager
def opened(settings: Settings, *, server: bool = False) -> Generator[Knowledge]:
    """The Knowledge that the settings describe, closed at the end."""
    set_up_logging(settings, server=server)
    from knowledge_worker.loading import load_knowledge

    knowledge = load_knowledge(settings)
    try:
        yield knowledge
    finally:
        knowledge.close()
