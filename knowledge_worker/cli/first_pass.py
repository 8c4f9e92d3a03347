"""Watches a service that was just started: until it is ready, then until every collection was indexed once."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from knowledge_worker.cli.output import counted, sentence
from knowledge_worker.cli.terminal import Terminal

ANSWER_S: Final = 5.0
LOOK_S: Final = 0.25
OWN_LOOKS: Final = "up-first-pass"
"""The number of our requests in the API's log."""
SAY_S: Final = 2.0
PATIENCE_S: Final = 15.0
"""After so long without readiness it is said what is missing."""
DECLARED_WITHIN_S: Final = 10.0
"""The processes store their declarations as they start."""

Collection = dict[str, Any]
"""A collection as ``GET /knowledge/collections`` shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Reads from our own API, never through a proxy.

    Attributes:
        host: an address to connect to.
        port: the API's port.
        token: one that may read; None when there is none.
    """

    host: str
    port: int
    token: str | None

    def get(self, path: str) -> tuple[int, Any]:
        """Status and decoded JSON; status 0 when nothing answers."""
        headers = {"X-Request-ID": OWN_LOOKS}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        connection = http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_S)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None
        finally:
            connection.close()


class FirstPass(threading.Thread):
    """Says when the service is ready, and how the first pass of each collection goes."""

    def __init__(
        self, client: Client, terminal: Terminal, *, on_ready: Callable[[], None], expects: bool, question: str
    ) -> None:
        """Prepare; ``start`` begins to look.

        Args:
            client: for our API.
            terminal: where it is said.
            on_ready: called once, when the service is ready.
            expects: whether any collection is declared.
            question: a command to try at the end.
        """
        super().__init__(name="first-pass", daemon=True)
        self._client = client
        self._terminal = terminal
        self._on_ready = on_ready
        self._expects = expects
        self._question = question
        self._ended = threading.Event()
        self._began = datetime.now(UTC)
        self._rates = Rates()

    def end(self) -> None:
        """Stop looking, and wait until nothing more is said."""
        self._ended.set()
        if self.is_alive():
            self.join(ANSWER_S + 1)

    def run(self) -> None:
        """Look until all is said; the service goes on without us."""
        if not self._wait_until_ready():
            return
        self._on_ready()
        if self._client.token is None:
            return
        collections = self._wait_until_declared()
        if not collections:
            if self._expects and not self._ended.is_set():
                self._terminal.write("", "No collection is declared yet; see knowledge-worker status.")
            return
        if not all(is_settled(collection) for collection in collections):
            collections = self._follow()
        if not self._ended.is_set():
            self._conclude(collections)

    def _wait_until_ready(self) -> bool:
        said, say_at = "", time.monotonic() + PATIENCE_S
        while not self._ended.wait(LOOK_S):
            status, answer = self._client.get("/readyz")
            if status == 200:
                return True
            if time.monotonic() > say_at:
                missing = ", ".join(answer.get("missing") or ()) if isinstance(answer, dict) else ""
                waits_for = missing or "the API does not answer"
                if waits_for != said:
                    self._terminal.write("", f"not ready yet: {waits_for}")
                said, say_at = waits_for, time.monotonic() + PATIENCE_S
        return False

    def _wait_until_declared(self) -> list[Collection]:
        deadline = time.monotonic() + (DECLARED_WITHIN_S if self._expects else 0)
        while True:
            found = self._collections()
            if found or time.monotonic() > deadline or self._ended.wait(LOOK_S):
                return found

    def _collections(self) -> list[Collection]:
        status, answer = self._client.get("/knowledge/collections")
        listed: Iterable[Collection] = answer.get("data", ()) if status == 200 else ()
        return [collection for collection in listed if collection.get("status") != "orphaned"]

    def _follow(self) -> list[Collection]:
        """Show the progress until every collection was indexed once or has failed."""
        progress = (
            Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[facts]}"),
                console=self._terminal.console,
                transient=True,
            )
            if self._terminal.is_live
            else None
        )
        display: AbstractContextManager[Any] = progress or nullcontext()
        tasks: dict[str, TaskID] = {}
        said: dict[str, str] = {}
        say_at = 0.0
        collections: list[Collection] = []
        with display:
            while not self._ended.wait(LOOK_S):
                collections = self._collections() or collections
                if collections and all(is_settled(collection) for collection in collections):
                    break
                if progress:
                    for collection in collections:
                        self._show(progress, tasks, collection)
                elif time.monotonic() > say_at:
                    say_at = time.monotonic() + SAY_S
                    for collection in collections:
                        line = f"{collection['name']}: {self._facts(collection)}"
                        if said.get(collection["name"]) != line and not is_settled(collection):
                            self._terminal.write("", line)
                            said[collection["name"]] = line
        return collections

    def _show(self, progress: Progress, tasks: dict[str, TaskID], collection: Collection) -> None:
        name, documents = collection["name"], collection["documents"]
        if name not in tasks:
            tasks[name] = progress.add_task(name, total=None, facts="")
        progress.update(
            tasks[name],
            total=documents["total"] or None,
            completed=documents["ready"] + documents["failed"],
            facts=self._facts(collection),
        )

    def _facts(self, collection: Collection) -> str:
        documents = collection["documents"]
        rate = self._rates.of(collection["name"], collection["passages"])
        return (
            f"{documents['total']} read, {documents['pending']} pending, {documents['ready']} ready, "
            f"{documents['failed']} failed, {collection['passages']} passages, {rate:.0f}/s"
        )

    def _conclude(self, collections: list[Collection]) -> None:
        for collection in collections:
            name, documents = collection["name"], collection["documents"]
            if collection.get("error"):
                self._terminal.write("", f"{name}: failed: {sentence(collection['error'])} {next_attempt(collection)}")
                continue
            failed = f", {documents['failed']} failed" if documents["failed"] else ""
            self._terminal.write(
                "",
                f"{name}: {counted(documents['ready'], 'document')}, "
                f"{counted(collection['passages'], 'passage')}{failed} {self._when(collection)}",
            )
        if any(collection["passages"] for collection in collections):
            self._terminal.write("", f"Ask:    {self._question}")

    def _when(self, collection: Collection) -> str:
        """How long the pass took, or, when it was not now, when it was."""
        synced_at = datetime.fromisoformat(collection["syncedAt"])
        if synced_at < self._began:
            return f"(in step since {synced_at.astimezone():%Y-%m-%d %H:%M})"
        _, answer = self._client.get(f"/knowledge/collections/{quote(collection['name'], safe='')}/passes")
        for each in answer.get("data", ()) if isinstance(answer, dict) else ():
            if each.get("outcome") in ("ok", "incomplete") and each.get("endedAt"):
                took = datetime.fromisoformat(each["endedAt"]) - datetime.fromisoformat(each["startedAt"])
                return f"in {took.total_seconds():.1f} s"
        return f"in {(synced_at - self._began).total_seconds():.1f} s"


class Rates:
    """Passages a second, smoothed over the last looks."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int, float]] = {}

    def of(self, name: str, passages: int) -> float:
        """Note the number of ``passages`` now; how many were added a second."""
        now = time.monotonic()
        moment, before, rate = self._last.get(name, (now, passages, 0.0))
        if now - moment >= 0.5:
            rate = 0.5 * rate + 0.5 * max(0, passages - before) / (now - moment)
            moment, before = now, passages
        self._last[name] = (moment, before, rate)
        return rate


def is_settled(collection: Collection) -> bool:
    """Whether its first pass succeeded or failed."""
    if collection.get("error"):
        return True
    return bool(collection.get("syncedAt")) and not collection["documents"]["pending"]


def next_attempt(collection: Collection) -> str:
    """When a failed collection is tried again, in words."""
    retry_at = collection.get("retryAt")
    if not retry_at:
        return "It is not tried again until the declaration changes."
    return f"It is tried again at {datetime.fromisoformat(retry_at).astimezone():%H:%M:%S}."
