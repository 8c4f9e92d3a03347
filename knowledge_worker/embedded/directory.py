"""The data directory: who may enter, who holds it, and what is remembered there."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from knowledge_worker.errors import ConfigurationError

LOCK_PATIENCE_S = 0.5
"""A glance of :func:`running_servers` holds the lock for a moment; that is no second user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServers:
    """What runs in a data directory, as ``run.json`` tells it.

    Attributes:
        pid: of the process that holds the directory.
        database_url: of the embedded PostgreSQL; None when that process uses another.
        redis_url: of the embedded Valkey; None when that process uses another.
        api_url: where the API listens; None when none was started.
        flower_url: the same for Flower.
        model: the default model of managed collections there; None when the application says it.
    """

    pid: int
    database_url: str | None = None
    redis_url: str | None = None
    api_url: str | None = None
    flower_url: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What stays the same over restarts, so that a printed URL keeps working.

    Attributes:
        superuser_password: of PostgreSQL's ``postgres``; only this package uses it.
        database_password: of the role ``knowledge``.
        redis_password: of Valkey.
        database_port: where PostgreSQL listened last.
        redis_port: where Valkey listened last.
    """

    superuser_password: str
    database_password: str
    redis_password: str
    database_port: int = 0
    redis_port: int = 0


class DataDirectory:
    """A data directory that this process holds until :meth:`close` or its end."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path) -> DataDirectory:
        """Create the directory where needed, for this user only, and lock it.

        Raises:
            ConfigurationError: it cannot be created or written, or another process holds it.
        """
        path = path.expanduser().absolute()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = path.resolve()
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise unusable(path, error) from None
        try:
            _take(lock, path)
            directory = cls(path, lock)
            directory._prepare()
        except OSError as error:
            os.close(lock)
            raise unusable(path, error) from None
        except ConfigurationError:
            os.close(lock)
            raise
        return directory

    def _prepare(self) -> None:
        os.truncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        self.run_file.unlink(missing_ok=True)  # of a run that was killed
        self.path.chmod(0o700)
        self.logs.mkdir(mode=0o700, exist_ok=True)
        if not (self.path / ".gitignore").exists():
            write_private(self.path / ".gitignore", "*\n")  # it holds passwords

    @property
    def run_file(self) -> Path:
        """Tells other processes what runs here."""
        return self.path / "run.json"

    @property
    def logs(self) -> Path:
        """One log a process."""
        return self.path / "logs"

    @property
    def mark(self) -> str:
        """A word in the command lines of the servers of this very directory; a copy of it has another."""
        status = self.path.stat()
        identity = f"{status.st_dev}:{status.st_ino}:{self.path}"
        return "knowledge-" + hashlib.sha256(identity.encode()).hexdigest()[:16]

    def remember(self, **changes: int) -> Memory:
        """What was kept, with ``changes`` kept from now on.

        Raises:
            ConfigurationError: it cannot be read or written.
        """
        file = self.path / "embedded.json"
        try:
            old: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
            fresh: dict[str, Any] = {
                name: secrets.token_urlsafe(24)
                for name in ("superuser_password", "database_password", "redis_password")
            }
            values: dict[str, Any] = {**fresh, **old, **changes}
            memory = Memory(**values)
            if asdict(memory) != old:
                write_private(file, json.dumps(asdict(memory), indent=2) + "\n")
        except OSError as error:
            raise unusable(self.path, error) from None
        except (ValueError, TypeError):
            raise ConfigurationError(
                f"{file} is damaged. Restore it from a backup; it holds the passwords of the databases here."
            ) from None
        return memory

    def token(self) -> str:
        """The development token of this directory, made on first use.

        Raises:
            ConfigurationError: it cannot be read or written.
        """
        file = self.path / "token"
        try:
            token = file.read_text().strip() if file.exists() else ""
            if len(token) < 16:
                token = secrets.token_urlsafe(24)
                write_private(file, token + "\n")
        except OSError as error:
            raise unusable(self.path, error) from None
        return token

    def publish(self, running: RunningServers) -> None:
        """Tell other processes what runs here.

        Raises:
            ConfigurationError: it cannot be written.
        """
        try:
            write_private(self.run_file, json.dumps(asdict(running), indent=2) + "\n")
        except OSError as error:
            raise unusable(self.path, error) from None

    def close(self) -> None:
        """Let others have it."""
        try:
            self.run_file.unlink(missing_ok=True)
        except OSError:
            pass  # without the lock nobody believes it
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def running_servers(data_dir: Path) -> RunningServers | None:
    """What runs in ``data_dir``, or None; a file that a killed process left is not believed."""
    try:
        lock = os.open(data_dir.expanduser() / "lock", os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        try:
            running = RunningServers(**json.loads((data_dir.expanduser() / "run.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None  # it is still starting
        return running if _holder(lock) == running.pid else None
    else:
        return None
    finally:
        os.close(lock)


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step; only this user can read it."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def unusable(path: Path, error: OSError) -> ConfigurationError:
    """One line for what the operating system refused."""
    if error.filename and not Path(os.fsdecode(error.filename)).is_relative_to(path):
        return ConfigurationError(f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}.")
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            problem = "the disk is full. Make room, or choose another place with --data-dir"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            problem = "it is not writable for this user. Choose another place with --data-dir"
        case errno.EEXIST | errno.ENOTDIR:
            problem = "there is a file in its place. Choose another place with --data-dir"
        case _:
            problem = f"{error.strerror}. Choose another place with --data-dir"
    return ConfigurationError(f"The data directory {path} cannot be used: {problem}.")


def _take(lock: int, path: Path) -> None:
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = _holder(lock)
                who = f"process {holder}" if holder else "another process"
                raise ConfigurationError(
                    f"The data directory {path} is in use by {who}. Stop that one, or choose another with --data-dir."
                ) from None
            time.sleep(0.05)
        else:
            return


def _holder(lock: int) -> int | None:
    try:
        return int(os.pread(lock, 32, 0))
    except ValueError:
        return None
