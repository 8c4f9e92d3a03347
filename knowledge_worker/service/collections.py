"""Managed collections: created and deleted at run time."""

from __future__ import annotations

from collections.abc import Collection as AnyCollection

from knowledge_worker.domain.collection import Collection, CollectionKind
from knowledge_worker.domain.document import storable
from knowledge_worker.domain.language import checked_language
from knowledge_worker.domain.limits import DESCRIPTION_MAX_CHARS, TITLE_MAX_CHARS
from knowledge_worker.domain.names import collection_name
from knowledge_worker.errors import (
    CollectionDeclaredError,
    ConfigurationError,
    InvalidInputError,
    NoDefaultModelError,
)
from knowledge_worker.ports import Locks, WorkQueue
from knowledge_worker.service.models import ModelBook
from knowledge_worker.service.passes import LOCK_PREFIX
from knowledge_worker.store.protocol import Store


class ManagedCollections:
    """What one can do to collections that no code declares.

    Args:
        declared: names that this process's code declares.
    """

    def __init__(
        self, *, store: Store, locks: Locks, queue: WorkQueue, models: ModelBook, declared: AnyCollection[str]
    ) -> None:
        self._store = store
        self._locks = locks
        self._queue = queue
        self._models = models
        self._declared = declared

    def create(self, name: object, *, title: object, description: object, language: object) -> None:
        """See :meth:`knowledge_worker.Knowledge.create_collection`."""
        checked = collection_name(name)
        shown_title = _text(title, "title", TITLE_MAX_CHARS)
        shown_description = _text(description, "description", DESCRIPTION_MAX_CHARS)
        words_in = checked_language(language)
        if checked in self._declared:
            raise CollectionDeclaredError(f'Knowledge collection "{checked}" is declared in code.')
        self._store.managed.create(
            checked,
            title=shown_title,
            description=shown_description,
            model=self._default_model(),
            language=words_in,
        )
        self._queue.nudge_sync(checked)

    def delete(self, name: object) -> None:
        """See :meth:`knowledge_worker.Knowledge.delete_collection`."""
        checked = collection_name(name)
        if checked in self._declared:
            # Our own declaration beats an orphan mark that an older process left (rule 38).
            raise CollectionDeclaredError(
                f'Knowledge collection "{checked}" is declared in code: remove it there, then it can be deleted.'
            )
        found = self._store.collections.find(checked, counts=False)
        self._store.managed.delete(checked)
        if found is not None and found.running is not None:
            # A holder that died would keep its lock, and a collection made anew under this name would wait for that.
            self._locks.release(f"{LOCK_PREFIX}{checked}", found.running)

    def seen_here(self, collection: Collection) -> Collection:
        """The collection as this process sees it: outdated when another default model is set by now (rule 48)."""
        default = self._models.default_id
        if collection.kind is not CollectionKind.MANAGED or default is None or collection.serving is None:
            return collection
        return collection.model_copy(update={"outdated": collection.serving.model != default})

    def _default_model(self) -> str:
        try:
            model = self._models.default()
        except ConfigurationError as error:
            raise NoDefaultModelError(f"The default model cannot be used here: {error.message}") from error
        if model is None:
            raise NoDefaultModelError(
                "Managed collections need a default model: set KNOWLEDGE_MODEL, or embedding_model in the application."
            )
        return model.id


def _text(value: object, field: str, max_chars: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInputError(f"The {field} is no text.", field=field)
    if len(value) > max_chars:
        raise InvalidInputError(
            f"The {field} has {len(value)} characters; at most {max_chars} are allowed.", field=field
        )
    return storable(value)
