"""Files and folders as documents, read one by one, as a folder source reads them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from knowledge_worker.domain.document import DocumentInput, shown_id
from knowledge_worker.domain.limits import FILE_MAX_BYTES
from knowledge_worker.errors import InvalidInputError
from knowledge_worker.ports import KnowledgeSource
from knowledge_worker.sources.folder import folder
from knowledge_worker.sources.textfile import check_size, checked_extensions, file_document


class ReadFiles:
    """Iterating reads; what was left out is said as it is met, and counted. Also the context of the folder sources.

    Args:
        paths: files and folders that exist.
        extensions: of the files in folders; empty takes the usual ones.
        prefix: put before each id and source.
        say: shows one line.

    Attributes:
        skipped: left out by a rule: links, other encodings, too large.
        unreadable: could not be read, and files that were named and break a rule.

    Raises:
        ConfigurationError: an extension is none.
    """

    def __init__(
        self, paths: Sequence[Path], *, extensions: Sequence[str], prefix: str, say: Callable[[str], None]
    ) -> None:
        wanted = checked_extensions(extensions or None)
        self._roots = [folder(path, wanted) if path.is_dir() else path for path in paths]
        self._folders = [path for path in paths if path.is_dir()]
        self._extensions = wanted
        self._prefix = prefix
        self._say = say
        self._reports = 0
        self.unreadable = 0

    @property
    def skipped(self) -> int:
        """Left out by a rule."""
        return self._reports - self.unreadable

    def count(self) -> int:
        """About how many documents there are, without reading any."""
        found = len(self._roots) - len(self._folders)
        for root in self._folders:
            for _, names, files in os.walk(root):
                names[:] = [name for name in names if not name.startswith(".")]
                found += sum(not name.startswith(".") and name.lower().endswith(self._extensions) for name in files)
        return found

    def __iter__(self) -> Iterator[DocumentInput]:
        # Only several paths can hold one id twice.
        ids: set[str] | None = set() if len(self._roots) > 1 else None
        for root in self._roots:
            for document in self._documents(root):
                if ids is not None:
                    if document.id in ids:
                        self._report_unreadable(f"{shown_id(document.id)}: another of the paths has this id already.")
                        continue
                    ids.add(document.id)
                source = None if document.source is None else self._prefix + document.source
                yield replace(document, id=self._prefix + document.id, source=source)

    # What a source may tell and ask

    @property
    def cancelled(self) -> bool:
        """Ctrl-C ends the process itself."""
        return False

    def raise_if_cancelled(self) -> None:
        """Never."""

    def on_error(self, error: BaseException | str) -> None:
        """Say what was left out."""
        self._reports += 1
        self._say(f"Skipped: {error}")

    def incomplete(self, reason: str) -> None:  # noqa: ARG002 - on_error has said it
        """Count what could not be read."""
        self.unreadable += 1

    def _documents(self, root: KnowledgeSource | Path) -> Iterator[DocumentInput]:
        if isinstance(root, Path):
            try:
                yield file_document(root.name, _read(root))
            except InvalidInputError as error:
                self._report_unreadable(f"{shown_id(str(root))}: {error.message}.")
            except OSError as error:
                self._report_unreadable(f"{shown_id(str(root))}: cannot be read: {os.strerror(error.errno or 0)}.")
        else:
            for document in root.documents(self):
                assert isinstance(document, DocumentInput)
                yield document

    def _report_unreadable(self, problem: str) -> None:
        self.on_error(problem)
        self.incomplete(problem)


def _read(file: Path) -> bytes:
    def opened(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)  # not waiting for the writer of a FIFO

    with open(file, "rb", opener=opened) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInputError("it is no regular file")
        check_size(status.st_size)
        return stream.read(FILE_MAX_BYTES + 1)
