"""Declaring a collection in code (specification §2)."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from knowledge_worker.domain.collection import NO_MODEL
from knowledge_worker.domain.language import SIMPLE, checked_language
from knowledge_worker.domain.limits import RESYNC_MAX_MS, RESYNC_MIN_MS
from knowledge_worker.domain.names import CollectionName, collection_name, propose_name
from knowledge_worker.errors import ConfigurationError, InvalidInputError, KnowledgeError
from knowledge_worker.ports import EmbeddingModel, KnowledgeSource
from knowledge_worker.sources.folder import folder
from knowledge_worker.sources.messages import described


@dataclass(frozen=True, init=False, repr=False, eq=False)
class KnowledgeCollection:
    """A name, its sources and one embedding model; checked when made, immutable afterwards.

    Attributes:
        trusted: as given, else whether all sources are.
        resync_ms: how long after a successful pass the sources are read again; None for at a start and on demand.
        max_delete_ratio: a pass that would delete a greater share of the documents waits for a confirmation.
    """

    name: CollectionName
    model: str | EmbeddingModel
    sources: tuple[KnowledgeSource, ...]
    trusted: bool
    resync_ms: int | None
    title: str | None
    description: str | None
    max_delete_ratio: float | None
    language: str

    def __init__(
        self,
        name: str,
        *,
        model: str | EmbeddingModel | None,
        sources: Sequence[KnowledgeSource],
        trusted: bool | None = None,
        resync_ms: int | None = None,
        title: str | None = None,
        description: str | None = None,
        max_delete_ratio: float | None = None,
        language: str = SIMPLE,
    ) -> None:
        """Check and keep the options.

        Args:
            name: lowercase words joined by single ``-``, at most 64 characters.
            model: ``"<provider>/<model id>"``, or a model object that is used as it is; None for a collection that is
                searched by words only. Giving it one later is an ordinary re-embedding.
            sources: at least one; when two yield one id the first counts.
            trusted: overrides what the sources say.
            resync_ms: 60 000 to 2 147 483 647.
            title: for people.
            description: for people and models: what is in it.
            max_delete_ratio: 0 to 1.
            language: whose stems and stop words the search by words knows; ``simple`` takes words as they are.

        Raises:
            ConfigurationError: an option breaks a rule; the message says which one and what to write instead.
        """
        checked_sources = _checked_sources(name, sources)
        _check_bool(name, trusted)
        values: dict[str, object] = {
            "name": _checked_name(name),
            "model": _checked_model(name, model),
            "sources": checked_sources,
            "trusted": all(source.trusted for source in checked_sources) if trusted is None else trusted,
            "resync_ms": _checked_resync(name, resync_ms),
            "title": _checked_text(name, "title", title),
            "description": _checked_text(name, "description", description),
            "max_delete_ratio": _checked_ratio(name, max_delete_ratio),
            "language": _checked_language(name, language),
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        return f"KnowledgeCollection({self.name!r}, model={self.model_id!r}, sources={len(self.sources)})"

    @property
    def model_id(self) -> str:
        """``<provider>/<model id>``, or ``none``."""
        return self.model if isinstance(self.model, str) else self.model.id

    def fingerprint(self, chunker: str, release: str | None) -> str:
        """What a pass runs under: equal in processes that declare the same, else different.

        Args:
            chunker: the chunker's version.
            release: names the deployed version, where the operator sets it.

        Returns:
            64 hexadecimal digits.
        """
        declared = [
            self.name,
            self.model_id,
            [source.fingerprint for source in self.sources],
            self.trusted,
            self.resync_ms,
            self.title,
            self.description,
            self.max_delete_ratio,
            self.language,
            chunker,
            release,
        ]
        return hashlib.sha256(json.dumps(declared).encode()).hexdigest()

    def check(self) -> None:
        """Check the sources without reading documents.

        Raises:
            ConfigurationError: a source can never work as it is declared.
            KnowledgeError: a check could not be made; its own error is the cause.
        """
        for source in self.sources:
            try:
                source.check()
            except ConfigurationError as error:
                raise ConfigurationError(f'Collection "{self.name}": {error.message}') from error
            except KnowledgeError:
                raise
            except Exception as error:
                raise ConfigurationError(
                    f'Collection "{self.name}": the check of source {source.kind} failed: {described(error)}'
                ) from error


def _checked_language(name: object, value: object) -> str:
    try:
        return checked_language(value)
    except InvalidInputError as error:
        raise ConfigurationError(f'Collection "{name}": language: {error.message}') from None


def folder_collection(path: str | os.PathLike[str], model: str | EmbeddingModel) -> KnowledgeCollection:
    """A collection of one folder, named after it, as ``--docs PATH`` declares it.

    Args:
        path: of a directory; ``.`` is named after the working directory.
        model: as of a collection.

    Raises:
        ConfigurationError: the folder is not there, or its name leaves nothing to name a collection after.
    """
    source = folder(path)
    source.check()
    called = Path(os.path.abspath(path)).name  # noqa: PTH100 - resolve() would name it after what a link points at
    name = propose_name(called)
    if name is None:
        raise ConfigurationError(
            f'No collection name can be made of the folder "{os.fspath(path)}": rename it with letters of a-z, '
            f'or declare KnowledgeCollection("<name>", sources=[folder(...)]) in Python.'
        )
    title = called if called != name and called.isprintable() else None
    return KnowledgeCollection(name, model=model, sources=[source], title=title)


def check_declarations(collections: Iterable[KnowledgeCollection]) -> None:
    """Check that no name is declared twice.

    Raises:
        ConfigurationError: names the first one that is.
    """
    names: set[str] = set()
    for collection in collections:
        if not isinstance(cast("object", collection), KnowledgeCollection):
            raise ConfigurationError(
                f"collections holds a {type(collection).__name__}; each entry is a KnowledgeCollection(...)."
            )
        if collection.name in names:
            raise ConfigurationError(
                f'The collection "{collection.name}" is declared twice: give one of them another name '
                "(--docs names a collection after its folder)."
            )
        names.add(collection.name)


def _checked_name(name: object) -> CollectionName:
    try:
        return collection_name(name)
    except InvalidInputError as error:
        raise ConfigurationError(error.message) from None


def _refuse(name: object, problem: str) -> ConfigurationError:
    _checked_name(name)  # a bad name is the better message
    return ConfigurationError(f'Collection "{name}": {problem}')


def _checked_model(name: object, model: object) -> str | EmbeddingModel:
    if model is None or model == NO_MODEL:
        return NO_MODEL
    hint = 'write model="<provider>/<model id>", such as "openai/text-embedding-3-small"'
    text = model
    if not isinstance(model, str):
        if not isinstance(model, EmbeddingModel):
            raise _refuse(name, f"a {type(model).__name__} is no model: {hint}, or pass an EmbeddingModel.")
        text = model.id
    if not isinstance(text, str) or not is_model_id(text):
        raise _refuse(name, f"{_quoted(text)} is no model id: {hint}.")
    return model


def is_model_id(text: str) -> bool:
    """Whether it has the form ``<provider>/<model id>``."""
    provider, slash, rest = text.partition("/")
    return bool(provider and slash and rest) and text.isprintable() and not any(c.isspace() for c in text)


def _quoted(value: object) -> str:
    text = str(value)[:80].encode("ascii", "backslashreplace").decode()
    return '"' + "".join(c if c.isprintable() else " " for c in text) + '"'


def _checked_sources(name: object, sources: object) -> tuple[KnowledgeSource, ...]:
    if isinstance(sources, KnowledgeSource | str | os.PathLike) or not isinstance(sources, Iterable):
        raise _refuse(name, 'sources is a list: write sources=[folder("./handbook")].')
    checked = tuple(cast("Iterable[object]", sources))
    if not checked:
        raise _refuse(name, "sources is empty; a collection that is filled at run time is created over the API.")
    for source in checked:
        if isinstance(source, type) or not isinstance(source, KnowledgeSource):
            raise _refuse(name, _source_problem(source))
        if not isinstance(cast("object", source.trusted), bool):
            raise _refuse(name, f"trusted of source {_quoted(source.kind)} is neither True nor False.")
    return cast("tuple[KnowledgeSource, ...]", checked)


def _source_problem(source: object) -> str:
    if isinstance(source, str | os.PathLike):
        return f"{_quoted(source)} is no source: write folder({_quoted(source)})."
    if callable(cast("Callable[..., object]", source)):
        called = getattr(source, "__name__", type(source).__name__)
        return f"the function {_quoted(called)} is no source: write @define_knowledge_source above it."
    return f"a {type(source).__name__} is no source: use folder(), git() or define_knowledge_source()."


def _checked_resync(name: object, resync_ms: object) -> int | None:
    if resync_ms is None:
        return None
    if isinstance(resync_ms, bool) or not isinstance(resync_ms, int):
        raise _refuse(name, f"resync_ms is a whole number of milliseconds, not a {type(resync_ms).__name__}.")
    if not RESYNC_MIN_MS <= resync_ms <= RESYNC_MAX_MS:
        raise _refuse(name, f"resync_ms is {resync_ms}; allowed are {RESYNC_MIN_MS} (a minute) to {RESYNC_MAX_MS}.")
    return resync_ms


def _checked_text(name: object, option: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or "\x00" in value:
        raise _refuse(name, f"{option} is a text that is not empty; leave it out when there is none.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refuse(name, f"{option} holds a lone surrogate, which cannot be stored.") from None
    return value


def _checked_ratio(name: object, ratio: object) -> float | None:
    if ratio is None:
        return None
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not math.isfinite(ratio) or not 0 <= ratio <= 1:
        raise _refuse(name, "max_delete_ratio is a number from 0 to 1, such as 0.5 for half of the documents.")
    return float(ratio)


def _check_bool(name: object, trusted: object) -> None:
    if trusted is not None and not isinstance(trusted, bool):
        raise _refuse(name, "trusted is True, False, or None for what the sources say.")
