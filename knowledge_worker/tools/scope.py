"""Which collections a call reaches, and whether what comes from there can be trusted (rules 60 and 63)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from knowledge_worker.errors import (
    CollectionNotAllowedError,
    CollectionNotReadyError,
    InvalidInputError,
    KnowledgeError,
)
from knowledge_worker.tools.backend import Backend, CollectionFacts

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one call reaches.

    Attributes:
        names: the collections, never empty.
        facts: what is known of them.
        tainted: one of them is not trusted, is unknown, or nobody could say.
        problem: why nobody could say.
    """

    names: tuple[str, ...]
    facts: Mapping[str, CollectionFacts]
    tainted: bool
    problem: KnowledgeError | None = None

    def refuse_unreadable(self, name: str) -> None:
        """Check that documents of a collection can be read here.

        Raises:
            CollectionNotAllowedError: no code declares it any more, or it is not there.
            CollectionNotReadyError: it was never indexed.
            KnowledgeError: nobody can say.
        """
        if self.problem is not None:
            raise self.problem
        facts = self.facts.get(name)
        if facts is None or facts.is_orphaned:
            raise CollectionNotAllowedError(name)
        if not facts.is_ready:
            raise CollectionNotReadyError(name)


def scope_of(backend: Backend, names: tuple[str, ...]) -> Scope:
    """What a call over ``names`` reaches; never raises: when nobody can say, it is tainted."""
    try:
        facts = backend.look_up(names)
    except KnowledgeError as error:
        _log.warning("knowledge_trust_unknown", collections=names, code=error.code)
        return Scope(names=names, facts={}, tainted=True, problem=error)
    return Scope(names=names, facts=facts, tainted=not all(name in facts and facts[name].trusted for name in names))


def chosen(allowed: tuple[str, ...], wanted: object) -> tuple[str, ...]:
    """The collections of a call: the one it names, else all of the tool's.

    Raises:
        CollectionNotAllowedError: it names one that is not the tool's.
        InvalidInputError: it names something that is no name.
    """
    if wanted is None:
        return allowed
    if not isinstance(wanted, str):
        raise InvalidInputError(f"collection is one of: {', '.join(allowed)}.", field="collection")
    if wanted not in allowed:
        raise CollectionNotAllowedError(wanted[:80].encode("ascii", "backslashreplace").decode())
    return (wanted,)
