"""``knowledge-worker up``: the whole service in one supervised group of processes."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass

import click
from pydantic import SecretStr

from knowledge_worker.cli.first_pass import OWN_LOOKS, Client, FirstPass
from knowledge_worker.cli.network import is_loopback, listening_socket
from knowledge_worker.cli.options import set_up_logging, setting, settings_from, shared_options
from knowledge_worker.cli.terminal import Terminal
from knowledge_worker.config import PREFIX, Settings
from knowledge_worker.embedded.directory import DataDirectory
from knowledge_worker.embedded.network import listener
from knowledge_worker.embedded.servers import Servers
from knowledge_worker.embedded.supervisor import Child, Running, Supervisor
from knowledge_worker.errors import ConfigurationError

WORKER_GRACE_S = 20.0
API_GRACE_S = 12.0
"""A little more than requests under way get from the API itself."""
SERVER_VARIABLES = (f"{PREFIX}DATABASE_URL", f"{PREFIX}REDIS_URL")
COMMAND = (sys.executable, "-m", "knowledge_worker.cli")


@click.command()
@setting("--host", help="Where the API listens. Default: 127.0.0.1")
@setting("--port", type=click.IntRange(0, 65535), help="The API's port; 0 picks a free one. Default: 8100")
@setting("--flower-port", type=click.IntRange(0, 65535), help="Flower's port; 0 picks a free one. Default: 5555")
@click.option("--no-flower", is_flag=True, help="Do not run Flower, the page that shows workers and tasks.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Worker processes.")
@shared_options
@click.pass_context
def up(ctx: click.Context, no_flower: bool, workers: int) -> None:
    """Run everything: servers, API, workers, beat and Flower.

    PostgreSQL and Valkey are embedded and keep their data in the data directory, unless KNOWLEDGE_DATABASE_URL and
    KNOWLEDGE_REDIS_URL name servers of your own. A process that dies is started again. Ctrl-C or SIGTERM stops all of
    it in order, a second one at once.

    \b
    Exit codes:
      0    stopped on request
      1    failed; the message says why
      2    wrong use or configuration
    """
    settings = settings_from(ctx, needs=())
    set_up_logging(settings, server=True)
    ctx.exit(_run(settings, flower=not no_flower, workers=workers))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What will run where.

    Attributes:
        settings: of the operator.
        port: the API's.
        flower_port: Flower's; None when it does not run.
        token: a development token that we made; None when tokens were set, or none may be made.
        workers: how many worker processes.
    """

    settings: Settings
    port: int
    flower_port: int | None
    token: str | None
    workers: int

    @property
    def external(self) -> bool:
        """Whether a server is not ours."""
        return self.settings.database_url is not None or self.settings.redis_url is not None

    @property
    def local_host(self) -> str:
        """An address at which this machine reaches the API."""
        host = self.settings.host
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound

    @property
    def api_url(self) -> str:
        return _url(self.local_host, self.port)

    @property
    def flower_url(self) -> str | None:
        return _url(_flower_host(self.settings), self.flower_port) if self.flower_port else None

    @property
    def reader(self) -> str | None:
        """A token with which we may read how far the indexing is."""
        if self.token:
            return self.token
        for token in self.settings.tokens:
            if any(_grants(permission, "knowledge:read") for permission in token.permissions):
                return token.value.get_secret_value()
        return None


def _run(settings: Settings, *, flower: bool, workers: int) -> int:
    terminal = Terminal()
    directory = DataDirectory.open(settings.data_dir)
    servers = Servers(directory, postgres=settings.database_url is None, valkey=settings.redis_url is None)
    try:
        with Supervisor(
            logs=directory.logs, write=_without_own_looks(terminal), on_kill=terminal.restore
        ) as supervisor:
            plan = _plan(settings, directory, flower=flower, workers=workers)
            return _serve(plan, directory, servers, supervisor, terminal)
    finally:
        servers.stop()


def _plan(settings: Settings, directory: DataDirectory, *, flower: bool, workers: int) -> _Plan:
    """Settle everything that may be refused before anything is started."""
    for folder in settings.docs:
        if not folder.is_dir():
            raise ConfigurationError(f"The folder {folder} does not exist. Check --docs or {PREFIX}DOCS.")
        if os.pathsep in str(folder.absolute()):
            raise ConfigurationError(f"The folder {folder} has a {os.pathsep!r} in its path; declare it in Python.")
    with ExitStack() as claimed:  # both are held until both are known to be free

        def claim(host: str, port: int, name: str) -> int:
            return claimed.enter_context(_listening(host, port, name)).getsockname()[1]

        api_port = claim(settings.host, settings.port, "port")
        flower_port = claim(_flower_host(settings), settings.flower_port, "flower_port") if flower else None
    development = not settings.tokens and is_loopback(settings.host)
    return _Plan(
        settings=settings,
        port=api_port,
        flower_port=flower_port,
        token=directory.token() if development else None,
        workers=workers,
    )


def _serve(plan: _Plan, directory: DataDirectory, servers: Servers, supervisor: Supervisor, terminal: Terminal) -> int:
    """Start everything, in the order in which one thing needs the other, and keep it alive."""
    env = _environment(plan, directory)
    # Declarations are checked beside the start of the servers: both take a moment, and neither needs the other.
    declarations = supervisor.begin_once(_command("check", env))
    servers.start()
    supervisor.watch(servers.parts)
    code = _finish(supervisor, declarations)
    if code or supervisor.stop_requested:
        return code
    env.update(_addresses(plan.settings, servers))
    # These two need no tables, and loading their code takes as long as migrating.
    for child in _helpers(plan, env):
        supervisor.begin(child)
    # What is wrong with servers of the operator's own is said here, in one line, instead of by each process.
    for name in _preparations(plan, env):
        code = _finish(supervisor, supervisor.begin_once(_command(name, env)))
        if code or supervisor.stop_requested:
            return code
    servers.publish(api_url=plan.api_url, flower_url=plan.flower_url, model=_default_model(plan.settings, env))
    for child in _services(plan, env):
        supervisor.begin(child)
    first_pass = FirstPass(
        Client(host=plan.local_host, port=plan.port, token=plan.reader),
        terminal,
        on_ready=lambda: _announce(plan, terminal),
        expects=bool(plan.settings.docs or plan.settings.app),
        question=_question(plan.settings),
    )
    first_pass.start()
    try:
        code = supervisor.run()
    finally:
        first_pass.end()
    supervisor.stop()
    return code


def _preparations(plan: _Plan, env: dict[str, str]) -> tuple[str, ...]:
    """The commands that have to succeed before anything else starts."""
    if plan.external:
        return ("migrate", "check")
    from knowledge_worker.domain.limits import Limits
    from knowledge_worker.store.postgres import PostgresStore

    store = PostgresStore(env[SERVER_VARIABLES[0]], limits=Limits(), pool_size=1)
    try:
        return ("migrate",) if store.health.problems() else ()  # a second start has no need to wait for it
    finally:
        store.close()


def _default_model(settings: Settings, env: dict[str, str]) -> str | None:
    """What the API and the workers started here make of managed collections, unless the application says it."""
    from knowledge_worker.loading import DEFAULT_LOCAL_MODEL

    in_development = settings.app is None and f"{PREFIX}DEV" in env
    return settings.model or (DEFAULT_LOCAL_MODEL if in_development else None)


def _finish(supervisor: Supervisor, running: Running) -> int:
    """Wait for a command that has to succeed before we go on; says its lines when it does not."""
    code, said = supervisor.finish_once(running)
    if code == 0 or supervisor.stop_requested:
        return 0
    for line in said:
        click.echo(line, err=True)
    return code if code > 0 else 1


def _command(name: str, env: dict[str, str]) -> Child:
    return Child(name=name, argv=[*COMMAND, name], env=dict(env))


def _helpers(plan: _Plan, env: dict[str, str]) -> Iterable[Child]:
    yield Child(name="beat", argv=[*COMMAND, "beat"], env=env)
    if plan.flower_port:
        yield Child(name="flower", argv=[*COMMAND, "flower"], env=env)


def _services(plan: _Plan, env: dict[str, str]) -> Iterable[Child]:
    yield Child(name="api", argv=[*COMMAND, "api"], env=env, grace_s=API_GRACE_S)
    for number in range(1, plan.workers + 1):
        name = "worker" if plan.workers == 1 else f"worker-{number}"
        yield Child(name=name, argv=[*COMMAND, "worker"], env=env, stop_order=1, grace_s=WORKER_GRACE_S)


def _without_own_looks(terminal: Terminal) -> Callable[[str, str], None]:
    """Leave out the API's lines about the looks of :class:`FirstPass`; the log has them."""

    def write(name: str, line: str) -> None:
        if not (name == "api" and OWN_LOOKS in line):
            terminal.write(name, line)

    return write


def _environment(plan: _Plan, directory: DataDirectory) -> dict[str, str]:
    """What the children are told; paths are absolute, and our own options win over what was in the environment."""
    settings = plan.settings
    told = {
        "DATA_DIR": str(directory.path),
        "HOST": settings.host,
        "PORT": str(plan.port),
        "DOCS": os.pathsep.join(str(folder.absolute()) for folder in settings.docs),
    }
    if settings.app:
        told["APP"] = settings.app
    if plan.flower_port:
        told["FLOWER_PORT"] = str(plan.flower_port)
    if plan.token:
        told["TOKENS"] = json.dumps([{"value": plan.token, "id": "development", "permissions": ["*"]}])
        told["DEV"] = "1"
    if settings.log_format == "auto" and sys.stdout.isatty():
        told["LOG_FORMAT"] = "console"  # they write to a pipe and cannot tell
    elif settings.log_format != "auto":
        told["LOG_FORMAT"] = settings.log_format
    told["LOG_LEVEL"] = settings.log_level
    env = {name: value for name, value in os.environ.items() if name not in SERVER_VARIABLES}
    return {**env, **{PREFIX + name: value for name, value in told.items()}}


def _addresses(settings: Settings, servers: Servers) -> dict[str, str]:
    urls = (servers.database_url or _secret(settings.database_url), servers.redis_url or _secret(settings.redis_url))
    return dict(zip(SERVER_VARIABLES, urls, strict=True))


def _announce(plan: _Plan, terminal: Terminal) -> None:
    terminal.write("", f"API:    {plan.api_url}")
    if plan.token:
        terminal.write("", f"Token:  {plan.token}")
        header = shlex.quote(f"Authorization: Bearer {plan.token}")
        terminal.write("", f"Try:    curl -H {header} {plan.api_url}/knowledge/collections")
    elif plan.settings.tokens:
        terminal.write("", f"Token:  as set in {PREFIX}TOKENS")
    else:
        terminal.write(
            "",
            f"Warning: {plan.settings.host} is not loopback and {PREFIX}TOKENS is not set: the API refuses everything.",
        )
    if plan.flower_url:
        terminal.write("", f"Flower: {plan.flower_url}")
    if not plan.settings.docs and not plan.settings.app:
        terminal.write("", "Nothing is declared: give --docs PATH or --app MODULE:ATTRIBUTE.")


def _question(settings: Settings) -> str:
    command = 'knowledge-worker search "your question"'
    if settings.data_dir != type(settings).model_fields["data_dir"].default:
        command += f" --data-dir {shlex.quote(str(settings.data_dir))}"
    return command


def _listening(host: str, port: int, name: str) -> socket.socket:
    """A socket on the port, or a line that says who has it."""
    try:
        return listening_socket(host, port, f"--{name.replace('_', '-')}", PREFIX + name.upper())
    except ConfigurationError as error:
        holder = listener(port)
        raise ConfigurationError(f"{error.message} It is held by {holder}." if holder else error.message) from None


def _flower_host(settings: Settings) -> str:
    """Where ``flower`` listens: without a password on loopback only."""
    return settings.host if is_loopback(settings.host) or settings.flower_basic_auth else "127.0.0.1"


def _grants(permission: str, wanted: str) -> bool:
    """``*`` is all; segments are compared one by one, and ``*`` as a segment is any (specification rule 51)."""
    has, wants = permission.split(":"), wanted.split(":")
    return permission == "*" or (len(has) == len(wants) and all(a in ("*", b) for a, b in zip(has, wants, strict=True)))


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _secret(value: SecretStr | None) -> str:
    return value.get_secret_value() if value else ""
