"""A corpus indexed for one evaluation, in a database of its own that is dropped afterwards.

Nothing else sees it: no worker indexes it, and no search over all collections finds it.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final
from uuid import uuid4

import psycopg
import structlog
from pydantic import SecretStr
from sqlalchemy import make_url

from knowledge_worker.config import Settings
from knowledge_worker.declarations import KnowledgeCollection
from knowledge_worker.domain.collection import Collection
from knowledge_worker.domain.language import SIMPLE
from knowledge_worker.embedded.directory import DataDirectory
from knowledge_worker.embedded.servers import Servers
from knowledge_worker.errors import ConfigurationError, KnowledgeError, ServiceUnavailableError
from knowledge_worker.evaluation.questions import json_lines, text_of
from knowledge_worker.knowledge import Knowledge
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.ports import EmbeddingModel
from knowledge_worker.queue.inline import InlineQueue
from knowledge_worker.sources.custom import define_knowledge_source

log = structlog.get_logger()

DATABASE_PREFIX: Final = "knowledge_eval_"
"""Of databases that a killed evaluation may leave behind."""

_LOOK_S: Final = 0.25
_DROP_TRIES: Final = 20


@contextlib.contextmanager
def temporary_database(settings: Settings) -> Generator[Settings]:
    """The settings with the address of an empty database that is dropped afterwards.

    On the server that the settings name, whose user may create databases; else on an embedded one of its own.

    Raises:
        ConfigurationError: the user may not create databases, or nothing is named and the extra is missing.
        ServiceUnavailableError: the server does not answer, or did not start.
    """
    with contextlib.ExitStack() as stack:
        server = _embedded(stack) if settings.database_url is None else settings.database_url.get_secret_value()
        name = f"{DATABASE_PREFIX}{uuid4().hex[:12]}"
        _create(server, name)
        stack.callback(_drop, server, name)
        url = make_url(server).set(database=name).render_as_string(hide_password=False)
        yield settings.model_copy(update={"database_url": SecretStr(url)})


def index_corpus(
    corpus: Path,
    settings: Settings,
    *,
    models: Sequence[str | EmbeddingModel | None],
    language: str = SIMPLE,
    on_progress: Callable[[Collection], None] | None = None,
) -> Knowledge:
    """Index the documents of a BEIR folder, once for each model.

    Args:
        corpus: a file of ``{"_id", "title"?, "text"}`` a line. The title is put above the text, as BEIR does, unless
            the text begins with it.
        settings: with the address of an empty database.
        models: each gives a collection, named by :func:`collection_of` in this order.
        language: of the search by words.
        on_progress: called now and then while a collection is indexed.

    Returns:
        What answers searches over the collections; the caller closes it.

    Raises:
        InvalidInputError: a line of the corpus is no document.
        ConfigurationError: a model does not resolve.
        EmbeddingError, KnowledgeError: the pass failed; the message says why.
    """
    # Read once before anything is indexed, so that a bad line is said with its number.
    for _ in _documents(corpus):
        pass
    source = define_knowledge_source(documents=lambda: _documents(corpus))
    collections = [
        KnowledgeCollection(collection_of(place), model=model, sources=[source], language=language)
        for place, model in enumerate(models)
    ]
    knowledge = Knowledge(collections, settings=settings, locks=MemoryLocks(), queue=InlineQueue())
    try:
        problems = knowledge.check(servers=False)
        if problems:
            raise ConfigurationError(problems[0])
        knowledge.migrate()
        for one in collections:
            _run_pass(knowledge, one.name, on_progress)
    except BaseException:
        knowledge.close()
        raise
    return knowledge


def collection_of(place: int) -> str:
    """The name of the collection of the model at that place."""
    return f"corpus-{place + 1}"


def _documents(corpus: Path) -> Iterator[dict[str, str]]:
    for where, record in json_lines(corpus):
        text = text_of(record, "text", where, blank=True)
        title = record.get("title")
        shown = title if isinstance(title, str) and title.strip() else ""
        content = f"{shown}\n\n{text}" if shown and not text.startswith(shown) else text
        document = {"id": text_of(record, "_id", where), "content": content}
        yield document | ({"title": shown} if shown else {})


def _run_pass(knowledge: Knowledge, name: str, on_progress: Callable[[Collection], None] | None) -> None:
    knowledge.sync(name)
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(knowledge.run_pass, name)
        try:
            while not wait([running], timeout=_LOOK_S).done:
                if on_progress is not None:
                    on_progress(knowledge.collection(name))
        except BaseException:
            knowledge.request_stop()
            raise
    outcome = running.result()
    if outcome != "ok":
        reason = knowledge.collection(name).error or outcome
        raise KnowledgeError(f"The corpus could not be indexed: {reason}")


def _embedded(stack: contextlib.ExitStack) -> str:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="knowledge-eval-"))
    servers = Servers(DataDirectory.open(Path(folder) / "data"), valkey=False)
    stack.callback(servers.stop)
    servers.start()
    assert servers.database_url is not None
    return servers.database_url


def _create(server: str, name: str) -> None:
    try:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"create database {name}".encode())
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            "The corpus is indexed in a database of its own, and this user may not create one: give it CREATEDB, or "
            'install "knowledge-worker[embedded]" and leave KNOWLEDGE_DATABASE_URL unset.'
        ) from error
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError("PostgreSQL does not answer at KNOWLEDGE_DATABASE_URL; try again.") from error


def _drop(server: str, name: str) -> None:
    for _ in range(_DROP_TRIES):
        try:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"drop database if exists {name} with (force)".encode())
                return
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectInUse):  # autovacuum is at it
            time.sleep(_LOOK_S)
        except psycopg.OperationalError:
            break
    log.warning("evaluation_left_database", database=name)
