"""``define_knowledge_source``: a user's own generator as a source (specification rule 13)."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

from knowledge_worker.errors import ConfigurationError
from knowledge_worker.ports import SourceContext
from knowledge_worker.sources.bridge import iterate, run_async

KIND_MAX_CHARS = 64

Documents = Callable[..., Any]
"""A generator or async generator function, or one that returns an iterable; with or without a context parameter."""
Check = Callable[[], Any]
_Passing = Literal["positional", "keyword", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomSource:
    """A source made of a function; made by :func:`define_knowledge_source`."""

    kind: str
    trusted: bool
    function: Documents
    checking: Check | None
    passing: _Passing

    @property
    def fingerprint(self) -> str:
        """Kind, trust, and the function's module and qualified name.

        Not its body: compiled code differs between Python versions that run side by side. A changed body is seen
        by the pass that every deployment starts.
        """
        return f"{self.kind} {_qualified_name(self.function)} {'trusted' if self.trusted else 'untrusted'}"

    def check(self) -> None:
        """Run the ``check`` function, if there is one; what it raises passes through."""
        if self.checking is None:
            return
        result = self.checking()
        if inspect.isawaitable(result):
            run_async(lambda: result)

    def documents(self, context: SourceContext) -> Iterator[object]:
        """Yield what the function yields; what it raises passes through."""
        match self.passing:
            case "positional":
                produced = self.function(context)
            case "keyword":
                produced = self.function(context=context)
            case "none":
                produced = self.function()
        yield from iterate(produced, kind=self.kind, context=context)


@overload
def define_knowledge_source(
    documents: Documents, *, kind: str = "custom", trusted: bool = True, check: Check | None = None
) -> CustomSource: ...


@overload
def define_knowledge_source(
    documents: None = None, *, kind: str = "custom", trusted: bool = True, check: Check | None = None
) -> Callable[[Documents], CustomSource]: ...


def define_knowledge_source(
    documents: Documents | None = None, *, kind: str = "custom", trusted: bool = True, check: Check | None = None
) -> CustomSource | Callable[[Documents], CustomSource]:
    """Make a source of a function that yields documents; also a decorator, with or without options.

    ::

        @define_knowledge_source(kind="faq")
        def faq():
            yield {"id": "returns", "title": "Returns", "content": "Thirty days, with the receipt."}

    Args:
        documents: a generator or async generator function that yields the whole set on every call: mappings
            ``{id, content, title?, source?, metadata?}`` or ``DocumentInput``. It gets the context when it takes an
            argument: ``cancelled``, ``raise_if_cancelled()``, ``on_error(error)``, ``incomplete(reason)``.
        kind: a word for people and logs.
        trusted: whether only the application's owners can write what it yields.
        check: a function (or coroutine function) without arguments that raises ``ConfigurationError`` when the
            source can never work as it is configured; run at the boot and by ``knowledge-worker check``.

    Raises:
        ConfigurationError: an option breaks a rule.
    """
    _check_options(kind=kind, trusted=trusted, check=check)
    if documents is None:
        return lambda function: _source(function, kind=kind, trusted=trusted, check=check)
    return _source(documents, kind=kind, trusted=trusted, check=check)


def _check_options(*, kind: object, trusted: object, check: object) -> None:
    if not isinstance(kind, str) or not kind.strip() or len(kind) > KIND_MAX_CHARS or not kind.isprintable():
        raise ConfigurationError(
            f'define_knowledge_source(): kind is a word of at most {KIND_MAX_CHARS} characters, such as kind="faq".'
        )
    if not isinstance(trusted, bool):
        raise ConfigurationError("define_knowledge_source(): trusted is True or False.")
    if check is not None and (not callable(check) or _context_passing(check) not in ("none", None)):
        raise ConfigurationError("define_knowledge_source(): check is a function without arguments.")


def _source(documents: object, *, kind: str, trusted: bool, check: Check | None) -> CustomSource:
    if not callable(documents):
        what = "a text" if isinstance(documents, str) else f"a {type(documents).__name__}"
        raise ConfigurationError(
            f"define_knowledge_source(): documents is a generator function, not {what}: "
            'write @define_knowledge_source(kind="faq") above a function, or pass the function without calling it.'
        )
    passing = _context_passing(documents)
    if passing is None:
        raise ConfigurationError(
            f'define_knowledge_source(): the function of source "{kind}" takes no argument or one, the context: '
            "write def documents(context) and bind anything else before, such as with functools.partial."
        )
    return CustomSource(kind=kind, trusted=trusted, function=documents, checking=check, passing=passing)


def _context_passing(function: Callable[..., Any]) -> _Passing | None:
    """How ``function`` wants the context; None when it demands more than that."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return "none"
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(required) > 1:
        return None
    chosen = required or [p for p in parameters if p.name in ("context", "ctx")][:1]
    if not chosen:
        return "none"
    if chosen[0].kind is not chosen[0].KEYWORD_ONLY:
        return "positional"
    return "keyword" if chosen[0].name == "context" else None


def _qualified_name(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{_module_name(named)}:{named.__qualname__}"


def _module_name(named: Any) -> str:
    """The module as a worker imports it: a script that declares and runs is ``__main__`` only to itself."""
    name = str(getattr(named, "__module__", None) or "builtins")
    if name != "__main__":
        return name
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else name
