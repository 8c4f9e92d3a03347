"""``knowledge-worker up``: the whole service in one supervised group of processes."""

from __future__ import annotations

import ipaddress
import json
import os
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click
from pydantic import SecretStr

from knowledge_worker.cli.first_pass import Client, FirstPass
from knowledge_worker.cli.terminal import Terminal
from knowledge_worker.config import PREFIX, Settings, load_settings
from knowledge_worker.embedded.directory import DataDirectory
from knowledge_worker.embedded.network import free_port, is_free, listener
from knowledge_worker.embedded.servers import Servers
from knowledge_worker.embedded.supervisor import CONFIGURATION_ERROR, Child, Supervisor
from knowledge_worker.errors import ConfigurationError

WORKER_GRACE_S = 20.0
COMMAND = (sys.executable, "-m", "knowledge_worker.cli")


@click.command()
@click.option(
    "--docs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="PATH",
    help="A folder to index as a collection named after it; may be given several times.  [env: KNOWLEDGE_DOCS]",
)
@click.option("--app", metavar="MODULE:ATTRIBUTE", help="Where the declarations are.  [env: KNOWLEDGE_APP]")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Where the embedded servers keep their data.  [env: KNOWLEDGE_DATA_DIR; default: .knowledge]",
)
@click.option("--host", help="Where the API listens.  [env: KNOWLEDGE_HOST; default: 127.0.0.1]")
@click.option("--port", type=int, help="The API's port; 0 picks a free one.  [env: KNOWLEDGE_PORT; default: 8100]")
@click.option("--flower-port", type=int, help="Flower's port; 0 picks a free one.  [env: KNOWLEDGE_FLOWER_PORT]")
@click.option("--no-flower", is_flag=True, help="Do not run Flower, the page that shows workers and tasks.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Worker processes.")
def up(
    *,
    docs: tuple[Path, ...],
    app: str | None,
    data_dir: Path | None,
    host: str | None,
    port: int | None,
    flower_port: int | None,
    no_flower: bool,
    workers: int,
) -> None:
    """Run everything: servers, API, workers, beat and Flower.

    PostgreSQL and Valkey are embedded and keep their data in the data directory, unless KNOWLEDGE_DATABASE_URL and
    KNOWLEDGE_REDIS_URL name servers of your own. Ctrl-C or SIGTERM stops all of it in order, a second one at once.

    Exit codes: 0 stopped on request, 1 something failed, 2 wrong use or configuration.
    """
    settings = load_settings(
        docs=docs or None, app=app, data_dir=data_dir, host=host, port=port, flower_port=flower_port
    )
    code = _run(settings, flower=not no_flower, workers=workers)
    if code:
        raise SystemExit(code)


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
    def local_host(self) -> str:
        """An address at which this machine reaches the API."""
        host = self.settings.host
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound

    @property
    def api_url(self) -> str:
        return _url(self.local_host, self.port)

    @property
    def flower_url(self) -> str | None:
        return _url("127.0.0.1", self.flower_port) if self.flower_port else None

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
        with Supervisor(logs=directory.logs, write=terminal.write, on_kill=terminal.restore) as supervisor:
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
    token = None
    if not settings.tokens and _is_loopback(settings.host):
        token = directory.token()
    return _Plan(
        settings=settings,
        port=_claim_port(settings.host, settings.port, "--port"),
        flower_port=_claim_port("127.0.0.1", settings.flower_port, "--flower-port") if flower else None,
        token=token,
        workers=workers,
    )


def _serve(plan: _Plan, directory: DataDirectory, servers: Servers, supervisor: Supervisor, terminal: Terminal) -> int:
    """Start everything, in the order in which one thing needs the other, and keep it alive."""
    env = _environment(plan, directory)
    # Declarations are checked beside the start of the servers: both take a moment, and neither needs the other.
    checking = supervisor.begin_once(_command("check", env))
    servers.start()
    supervisor.watch(servers.parts)
    env.update(_addresses(plan.settings, servers))
    for running, name in ((checking, "check"), (None, "migrate")):
        code, said = supervisor.finish_once(running or supervisor.begin_once(_command(name, env)))
        if supervisor.stop_requested:
            return 0
        if code != 0:
            for line in said:
                terminal.write("", line)
            return CONFIGURATION_ERROR if code == CONFIGURATION_ERROR else 1
    servers.publish(api_url=plan.api_url, flower_url=plan.flower_url)
    for child in _children(plan, env):
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


def _command(name: str, env: dict[str, str]) -> Child:
    return Child(name=name, argv=[*COMMAND, name], env=env)


def _children(plan: _Plan, env: dict[str, str]) -> Iterable[Child]:
    yield Child(name="api", argv=[*COMMAND, "api"], env=env)
    for number in range(1, plan.workers + 1):
        name = "worker" if plan.workers == 1 else f"worker-{number}"
        yield Child(name=name, argv=[*COMMAND, "worker"], env=env, stop_order=1, grace_s=WORKER_GRACE_S)
    yield Child(name="beat", argv=[*COMMAND, "beat"], env=env)
    if plan.flower_port:
        yield Child(name="flower", argv=[*COMMAND, "flower"], env=env)


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
    return {**os.environ, **{PREFIX + name: value for name, value in told.items()}}


def _addresses(settings: Settings, servers: Servers) -> dict[str, str]:
    return {
        f"{PREFIX}DATABASE_URL": servers.database_url or _secret(settings.database_url),
        f"{PREFIX}REDIS_URL": servers.redis_url or _secret(settings.redis_url),
    }


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


def _claim_port(host: str, port: int, option: str) -> int:
    try:
        if port == 0:
            return free_port(host=host)
        if is_free(host, port):
            return port
    except OSError as error:
        raise ConfigurationError(f"Nothing can listen on {host}, port {port}: {error.strerror}.") from None
    holder = listener(port)
    by = f" by {holder}" if holder else ""
    raise ConfigurationError(
        f"Port {port} on {host} is in use{by}. Stop that, choose another with {option}, or {option} 0 for a free one."
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _grants(permission: str, wanted: str) -> bool:
    """``*`` is all; segments are compared one by one, and ``*`` as a segment is any (specification rule 51)."""
    has, wants = permission.split(":"), wanted.split(":")
    return permission == "*" or (len(has) == len(wants) and all(a in ("*", b) for a, b in zip(has, wants, strict=True)))


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _secret(value: SecretStr | None) -> str:
    return value.get_secret_value() if value else ""
