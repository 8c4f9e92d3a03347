"""Reading all sources of a collection as one stream of checked documents (specification rules 14 to 18)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import structlog

from knowledge_worker.domain.document import CheckedDocument, DocumentInput, checked_document, shown_id
from knowledge_worker.errors import (
    ConfigurationError,
    InvalidInputError,
    LeaseLostError,
    PassCancelledError,
    SourceError,
)
from knowledge_worker.ports import KnowledgeSource
from knowledge_worker.sources.bridge import iterate
from knowledge_worker.sources.messages import described, one_line

REPORTS_MAX = 100
REASONS_MAX = 20

_log: Any = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead:
    """What a source yielded and reported so far; final once the next source has begun.

    Attributes:
        read: items it yielded, skipped ones included.
        skipped: everything that was reported: items left out, and what the source itself skipped.
        reports: the first 100 of them, one line each.
        reasons: why the read is incomplete, each once, at most 20; empty when it is complete.
    """

    kind: str
    read: int
    skipped: int
    reports: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def incomplete(self) -> bool:
        """Whether documents may be missing although they still exist."""
        return bool(self.reasons)


class ReadContext:
    """What a source may tell and ask while it is read; safe to use from several threads.

    Args:
        kind: of the source, for the log.
        collection: for the log.
        cancelled: whether the pass was asked to stop; asked often, so it should be cheap.
    """

    def __init__(self, *, kind: str, collection: str | None = None, cancelled: Callable[[], bool]) -> None:
        self.kind = kind
        self._log = _log.bind(source=kind) if collection is None else _log.bind(collection=collection, source=kind)
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._read = 0
        self._skipped = 0
        self._reports: list[str] = []
        self._reasons: list[str] = []

    @property
    def cancelled(self) -> bool:
        """Whether the pass was asked to stop."""
        return self._cancelled()

    def raise_if_cancelled(self) -> None:
        """Raise PassCancelledError when the pass was asked to stop."""
        if self._cancelled():
            raise PassCancelledError("The pass was asked to stop.")

    def on_error(self, error: BaseException | str) -> None:
        """Report something that was skipped: counted always, kept and logged up to a bound."""
        report = one_line(error) if isinstance(error, str) else described(error)
        with self._lock:
            self._skipped += 1
            kept = len(self._reports) < REPORTS_MAX
            if kept:
                self._reports.append(report)
        if kept:
            self._log.warning("source_report", report=report)

    def incomplete(self, reason: str) -> None:
        """Say that a transient failure kept documents out of this read."""
        reason = one_line(str(reason)) or "no reason was given"
        with self._lock:
            new = reason not in self._reasons and len(self._reasons) < REASONS_MAX
            if new:
                self._reasons.append(reason)
        if new:
            self._log.warning("source_incomplete", reason=reason)

    def count_item(self) -> None:
        """Count an item that the source yielded."""
        self._read += 1

    def result(self) -> SourceRead:
        """What was counted and reported so far."""
        with self._lock:
            return SourceRead(
                kind=self.kind,
                read=self._read,
                skipped=self._skipped,
                reports=tuple(self._reports),
                reasons=tuple(self._reasons),
            )


class SourcesRead:
    """One read of all sources; iterate it once, ask for the results at any time. Made by :func:`read_sources`."""

    def __init__(self, sources: Sequence[KnowledgeSource], *, collection: str | None, cancelled: Callable[[], bool]):
        self._sources = sources
        self._collection = collection
        self._cancelled = cancelled
        self._contexts: list[ReadContext] = []
        self._begun = False

    def __iter__(self) -> Generator[tuple[int, CheckedDocument]]:
        """Yield ``(index of the source, document)``, source by source in the order of declaration."""
        if self._begun:
            raise RuntimeError("A read is iterated once; each pass makes its own.")
        self._begun = True
        for index, source in enumerate(self._sources):
            context = ReadContext(kind=source.kind, collection=self._collection, cancelled=self._cancelled)
            self._contexts.append(context)
            with closing(_read_source(source, context)) as documents:
                for document in documents:
                    yield index, document

    def report_repeated(self, index: int, identifier: str) -> None:
        """Report that a source yielded an id again; its first document counts (rule 14)."""
        self._contexts[index].on_error(
            f"{shown_id(identifier)}: the source yields this id more than once; the first one counts."
        )

    def finish(self) -> None:
        """Log how many reports were left out of the log, once nothing more will be reported."""
        for context in self._contexts:
            _log_omitted(context, self._collection)

    @property
    def results(self) -> tuple[SourceRead, ...]:
        """Of every source begun so far, in the order of declaration."""
        return tuple(context.result() for context in self._contexts)

    @property
    def read(self) -> int:
        """Items that all sources yielded so far."""
        return sum(result.read for result in self.results)

    @property
    def skipped(self) -> int:
        """Everything that was reported so far."""
        return sum(result.skipped for result in self.results)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the read is incomplete, each reason once; empty when it is complete."""
        return tuple(dict.fromkeys(reason for result in self.results for reason in result.reasons))

    @property
    def reports(self) -> tuple[str, ...]:
        """The first 100 reports; it only grows. ``skipped`` counts them all."""
        return tuple(report for result in self.results for report in result.reports)[:REPORTS_MAX]


def read_sources(
    sources: Sequence[KnowledgeSource], *, collection: str | None = None, cancelled: Callable[[], bool] = lambda: False
) -> SourcesRead:
    """Begin a read of ``sources``; nothing happens until it is iterated.

    Nothing is kept of a document once it is yielded, so that memory does not grow with their number. Whoever consumes
    them finds out which ids came before and tells :meth:`SourcesRead.report_repeated`.

    Args:
        sources: in the order of declaration.
        collection: for the log.
        cancelled: asked before each document.

    Raises (while iterated):
        SourceError: a source raised; its own error is the cause.
        ConfigurationError: a source says that it can never work as it is declared.
        PassCancelledError: ``cancelled()`` became true.
    """
    return SourcesRead(sources, collection=collection, cancelled=cancelled)


def _read_source(source: KnowledgeSource, context: ReadContext) -> Generator[CheckedDocument, None, None]:
    for item in _raised_as_ours(source, context):
        context.raise_if_cancelled()
        context.count_item()
        document = _checked(item, context)
        if document is not None:
            yield document


def _raised_as_ours(source: KnowledgeSource, context: ReadContext) -> Iterator[object]:
    """The items of ``source``; only its own errors are caught here, none of the code that consumes the items."""
    items: Iterator[object] | None = None
    try:
        while True:
            try:
                if items is None:
                    context.raise_if_cancelled()
                    items = iterate(source.documents(context), kind=source.kind, context=context)
                item = next(items)
            except StopIteration:
                return
            except (ConfigurationError, PassCancelledError, LeaseLostError):
                raise
            except SourceError as error:
                raise SourceError(f"source {source.kind}: {one_line(error.message)}") from error
            except BaseException as error:
                # sys.exit() in a source ends its read, not the worker; Ctrl-C and our own closing stay what they are.
                if isinstance(error, GeneratorExit) or (
                    isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
                ):
                    raise
                raise SourceError(f"source {source.kind}: {described(error)}") from error
            yield item
    finally:
        _close(items, context)


def _close(items: object, context: ReadContext) -> None:
    close = getattr(items, "close", None)
    if close is None:
        return
    try:
        close()
    except Exception as error:  # noqa: BLE001 - why the read ended matters more than how its source cleaned up
        _log.warning("source_close_failed", source=context.kind, error=described(error))


def _checked(item: object, context: ReadContext) -> CheckedDocument | None:
    try:
        return checked_document(item)
    except InvalidInputError as error:
        context.on_error(f"{_item_id(item)}: {error.message}")
    except Exception as error:  # noqa: BLE001 - an item is foreign data; a strange mapping or number is its fault
        context.on_error(f"{_item_id(item)}: The document cannot be stored ({type(error).__name__}).")
    return None


def _item_id(item: object) -> str:
    if isinstance(item, DocumentInput):
        return shown_id(item.id) or "(empty id)"
    if isinstance(item, Mapping):
        return shown_id(cast("Mapping[str, object]", item).get("id")) or "(empty id)"
    return f"({type(item).__name__})"


def _log_omitted(context: ReadContext, collection: str | None) -> None:
    omitted = context.result().skipped - REPORTS_MAX
    if omitted > 0:
        _log.warning("source_reports_omitted", collection=collection, source=context.kind, count=omitted)
