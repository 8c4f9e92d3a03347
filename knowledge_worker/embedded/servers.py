"""PostgreSQL and Valkey together, below one data directory that one process holds at a time."""

from __future__ import annotations

import os
from pathlib import Path

from knowledge_worker.embedded.directory import DataDirectory, RunningServers, running_servers
from knowledge_worker.embedded.postgres import EmbeddedPostgres
from knowledge_worker.embedded.process import Server
from knowledge_worker.embedded.valkey import EmbeddedValkey

__all__ = ["RunningServers", "Servers", "running_servers", "start_servers"]


class Servers:
    """The embedded servers of a data directory, running until :meth:`stop` or the end of this process.

    Attributes:
        database_url: of PostgreSQL; None when it was not asked for.
        redis_url: of Valkey; None when it was not asked for.
        parts: the servers in the order in which they are stopped.
    """

    def __init__(self, directory: DataDirectory, *, postgres: bool = True, valkey: bool = True) -> None:
        self._directory = directory
        self._postgres = EmbeddedPostgres(directory) if postgres else None
        self._valkey = EmbeddedValkey(directory) if valkey else None
        self.parts: tuple[Server, ...] = tuple(part for part in (self._valkey, self._postgres) if part)
        self.database_url: str | None = None
        self.redis_url: str | None = None

    def start(self) -> None:
        """Start them; when one cannot be started, none is left running.

        Raises:
            ConfigurationError: the extra is missing, or the directory cannot be used; one line says why.
            ServiceUnavailableError: a server did not start; names its log.
        """
        try:
            for part in self.parts:
                part.start()
        except BaseException:
            for part in self.parts:
                part.stop()
            raise
        self.database_url = self._postgres.url if self._postgres else None
        self.redis_url = self._valkey.url if self._valkey else None

    def publish(self, *, api_url: str | None = None, flower_url: str | None = None, model: str | None = None) -> None:
        """Tell other commands what runs here."""
        self._directory.publish(
            RunningServers(
                pid=os.getpid(),
                database_url=self.database_url,
                redis_url=self.redis_url,
                api_url=api_url,
                flower_url=flower_url,
                model=model,
            )
        )

    def stop(self) -> None:
        """Stop them cleanly, wait, and let others have the directory."""
        for part in self.parts:
            part.stop()
        self._directory.close()


def start_servers(data_dir: Path) -> Servers:
    """Start both servers on ``data_dir``; the first time this creates everything.

    They end with this process however it ends. Call it from the main thread: it is the cheaper way.

    Raises:
        ConfigurationError: the extra is missing, or the directory is in use or cannot be used; one line says why.
        ServiceUnavailableError: a server did not start; names its log.
    """
    directory = DataDirectory.open(data_dir)
    servers = Servers(directory)
    try:
        servers.start()
        servers.publish()
    except BaseException:
        servers.stop()
        raise
    return servers
