"""``folder(path)``: the text files below a directory (specification rules 10 to 12)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import cast

from knowledge_worker.domain.document import DocumentInput, shown_id
from knowledge_worker.domain.limits import FILE_MAX_BYTES, ID_MAX_CHARS
from knowledge_worker.errors import ConfigurationError, InvalidInputError, SourceError
from knowledge_worker.ports import KnowledgeSource, SourceContext
from knowledge_worker.sources.messages import one_line
from knowledge_worker.sources.textfile import (
    check_path,
    check_size,
    checked_extensions,
    checked_trusted,
    file_document,
    is_text,
)

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Not waiting for the writer of a FIFO and not following a link: what is opened may not be what was listed.
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def folder(
    path: str | os.PathLike[str], extensions: Iterable[str] | None = None, trusted: bool = True
) -> KnowledgeSource:
    """Every text file below a directory, in code-point order of its path.

    Args:
        path: resolved against the working directory now; the directory itself may be a symbolic link.
        extensions: of the files that are read, compared without case; ``.md .markdown .mdx .txt`` by default.
        trusted: whether only the application's owners can write to it.

    Raises:
        ConfigurationError: an option breaks a rule. Whether the directory is there is asked by ``check()``.
    """
    written = _checked_path(path)
    return FolderSource(
        path=Path(os.path.abspath(written)),  # noqa: PTH100 - resolve() would follow the links
        written=os.path.normpath(written),
        extensions=checked_extensions(extensions),
        trusted=checked_trusted("folder", trusted),
    )


class _Kind(Enum):
    DIRECTORY = auto()
    FILE = auto()
    LINK = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource:
    """A directory that is read anew on each pass; made by :func:`folder`.

    Attributes:
        path: absolute.
        written: as the code wrote it, so that replicas with other working directories declare the same.
    """

    path: Path
    written: str
    extensions: tuple[str, ...]
    trusted: bool
    kind: str = field(default="folder", init=False)

    @property
    def fingerprint(self) -> str:
        """The options, with the path as it was written."""
        return f"folder {self.written} {' '.join(self.extensions)} {'trusted' if self.trusted else 'untrusted'}"

    def check(self) -> None:
        """Check that the directory is there and can be listed."""
        try:
            with os.scandir(self.path):
                pass
        except OSError as error:
            reason = {
                errno.ENOENT: "there is no such directory; create it or correct the path",
                errno.ENOTDIR: "it is no directory; name the directory that holds the files",
            }.get(error.errno or 0, f"it cannot be listed ({os.strerror(error.errno or 0)}); check its permissions")
            raise ConfigurationError(f'folder "{self._shown}": {reason}.') from error

    def documents(self, context: SourceContext) -> Iterator[DocumentInput]:
        """Yield the files one by one, each opened relative to its directory so that no link is ever followed.

        Raises:
            SourceError: the directory vanished, cannot be listed, or was replaced while it was read.
        """
        try:
            root = os.open(self.path, _OPEN_DIRECTORY)
        except OSError as error:
            raise SourceError(f'folder "{self._shown}" cannot be read: {os.strerror(error.errno or 0)}.') from error
        try:
            yield from self._directory(root, "", context)
            self._check_still_there(root)
        finally:
            os.close(root)

    @property
    def _shown(self) -> str:
        return one_line(shown_id(self.written))

    def _check_still_there(self, root: int) -> None:
        # A tree deleted under the walk looks like one that lost its files: that must not empty the index.
        try:
            same = os.path.samestat(self.path.stat(), os.fstat(root))
        except OSError:
            same = False
        if not same:
            raise SourceError(f'folder "{self._shown}" was replaced or removed while it was read.')

    def _directory(self, directory: int, prefix: str, context: SourceContext) -> Iterator[DocumentInput]:
        try:
            entries = self._listed(directory)
        except OSError as error:
            if not prefix:
                reason = os.strerror(error.errno or 0)
                raise SourceError(f'folder "{self._shown}" cannot be listed: {reason}.') from error
            _report_unreadable(context, prefix, error)
            return
        for name, kind in entries:
            context.raise_if_cancelled()
            path = prefix + name
            match kind:
                case _Kind.DIRECTORY:
                    yield from self._subdirectory(directory, path, name, context)
                case _Kind.FILE:
                    document = self._file(directory, path, name, context)
                    if document is not None:
                        yield document
                case _Kind.LINK:
                    _report(context, path, "it is a symbolic link; links are not followed")
                case _Kind.OTHER:
                    _report(context, path, "it is no regular file")

    def _listed(self, directory: int) -> list[tuple[str, _Kind]]:
        entries: list[tuple[str, _Kind]] = []
        with os.scandir(directory) as listing:
            for entry in listing:
                if entry.name.startswith("."):
                    continue
                if entry.is_symlink():
                    entries.append((entry.name, _Kind.LINK))
                elif entry.is_dir(follow_symlinks=False):
                    entries.append((entry.name, _Kind.DIRECTORY))
                elif entry.name.lower().endswith(self.extensions):
                    regular = entry.is_file(follow_symlinks=False)
                    entries.append((entry.name, _Kind.FILE if regular else _Kind.OTHER))
        # With its slash a directory sorts where the paths below it do: a-b.md, a.md, a/b.md.
        entries.sort(key=lambda entry: entry[0] + "/" if entry[1] is _Kind.DIRECTORY else entry[0])
        return entries

    def _subdirectory(self, parent: int, path: str, name: str, context: SourceContext) -> Iterator[DocumentInput]:
        if not is_text(path):
            _report(context, path, "its name is not UTF-8; rename it")
            return
        # No path below could stay within the limit; this also bounds how many directories are open at once.
        if len(path) + 2 > ID_MAX_CHARS:
            _report(context, path, f"the paths below it are over {ID_MAX_CHARS} characters")
            return
        try:
            directory = os.open(name, _OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError as error:
            _report_unreadable(context, path, error)
            return
        try:
            yield from self._directory(directory, path + "/", context)
        finally:
            os.close(directory)

    def _file(self, directory: int, path: str, name: str, context: SourceContext) -> DocumentInput | None:
        try:
            check_path(path)
            return file_document(path, _read_regular_file(name, directory))
        except FileNotFoundError:
            return None
        except InvalidInputError as error:
            _report(context, path, error.message)
        except OSError as error:
            if error.errno == errno.ELOOP:
                _report(context, path, "it is a symbolic link; links are not followed")
            else:
                _report_unreadable(context, path, error)
        return None


def _checked_path(path: object) -> str:
    written = os.fspath(cast("str | os.PathLike[str]", path)) if isinstance(path, str | os.PathLike) else ""
    if not isinstance(cast("object", written), str) or not written or "\x00" in written:
        raise ConfigurationError('folder() needs the path of a directory as text: write folder("./handbook").')
    return written


def _read_regular_file(name: str, directory: int) -> bytes:
    with open(os.open(name, _OPEN_FILE, dir_fd=directory), "rb") as file:  # noqa: PTH123 - a descriptor has no path
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInputError("it is no regular file")
        check_size(status.st_size)
        # One byte more than allowed shows a file that grew meanwhile.
        return file.read(FILE_MAX_BYTES + 1)


def _report(context: SourceContext, path: str, problem: str) -> None:
    context.on_error(f"{shown_id(path)}: {problem}.")


def _report_unreadable(context: SourceContext, path: str, error: OSError) -> None:
    problem = f"{shown_id(path.rstrip('/'))}: cannot be read: {os.strerror(error.errno or 0)}."
    context.on_error(problem)
    context.incomplete(problem)
