"""The same declarations in a process that kills itself at one step of a pass.

``FAULT`` says where: ``part.method:when:nth``, and ``:holder`` or ``:helper`` behind it counts only calls of one of the
two. ``when`` is ``before`` or ``after`` the call, or ``inside`` at a report of progress. It happens once: the file
``DIED`` tells that it has.
"""

import os
import signal
from contextlib import contextmanager
from typing import Any

from knowledge_worker import Knowledge, KnowledgeCollection, folder
from knowledge_worker.config import load_settings
from knowledge_worker.store.postgres import PostgresStore, generations

fault = os.environ.get("FAULT")
where, when, nth, *role = (fault or "none.none:before:1").split(":")
part_name, method_name = where.split(".")
calls = 0


def reached(arguments: tuple[Any, ...]) -> None:
    """Count a call, and die at the one that was asked for."""
    global calls
    if role and any(getattr(one, "helper", role[0] == "helper") is not (role[0] == "helper") for one in arguments[:1]):
        return
    calls += 1
    if calls == int(nth):
        try:
            os.close(os.open(os.environ["DIED"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def dying(method: Any) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        if when == "before":
            reached(arguments)
        if when == "inside":
            progress = options["progress"]
            options["progress"] = lambda: (reached(arguments), progress())
        result = method(*arguments, **options)
        if when == "after":
            reached(arguments)
        return result

    return call


class Part:
    """A part of the store whose named method is deadly."""

    def __init__(self, name: str, part: Any) -> None:
        self._name = name
        self._part = part

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._part, method)
        if (self._name, method) == ("documents", "reading"):
            return self._reading
        return dying(found) if (self._name, method) == (part_name, method_name) else found

    @contextmanager
    def _reading(self, guard: Any) -> Any:
        with self._part.reading(guard) as reading:
            yield Part("reading", reading)


class Store:
    """The real store, part by part."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return found if callable(found) else Part(name, found)


if part_name == "tables":
    generations.drop_unused_tables = dying(generations.drop_unused_tables)
settings = load_settings()
store = Store(PostgresStore(settings.database_url.get_secret_value(), limits=settings.limits)) if fault else None
knowledge = Knowledge(
    collections=[
        KnowledgeCollection(name, model=os.environ["MODEL"], sources=[folder(os.environ["DOCS"] + "/" + name)])
        for name in os.environ["COLLECTIONS"].split(",")
    ],
    store=store,  # type: ignore[arg-type]
)
