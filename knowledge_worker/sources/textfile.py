"""When a file is a document: extension, path, size, encoding, title (specification rules 10 and 11)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Final, cast

from knowledge_worker.domain.document import DocumentInput
from knowledge_worker.domain.limits import FILE_MAX_BYTES, ID_MAX_CHARS
from knowledge_worker.errors import ConfigurationError, InvalidInputError

DEFAULT_EXTENSIONS: Final = (".md", ".markdown", ".mdx", ".txt")
TITLE_MAX_CHARS: Final = 300
"""Every chunk carries its document's title, so a heading as long as a file must not become one."""

_HEADING = re.compile(r" {0,3}#(?:[ \t]+(.*))?")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")


def checked_extensions(extensions: object) -> tuple[str, ...]:
    """Extensions in lower case with their dot; None means the usual ones.

    Args:
        extensions: such as ``[".md", "rst"]``.

    Raises:
        ConfigurationError: no list, an empty one, or an entry that no file name ends with.
    """
    if extensions is None:
        return DEFAULT_EXTENSIONS
    if isinstance(extensions, str | bytes) or not isinstance(extensions, Iterable):
        raise ConfigurationError('extensions is a list of texts: write extensions=[".md", ".txt"].')
    checked: list[str] = []
    for extension in cast("Iterable[object]", extensions):
        if not isinstance(extension, str):
            raise ConfigurationError(f'An extension is text such as ".md", not {type(extension).__name__}.')
        bare = extension.removeprefix(".").lower()
        if not bare or not re.fullmatch(r"[^\s/\\*?.\x00]+(?:\.[^\s/\\*?.\x00]+)*", bare):
            raise ConfigurationError(f'"{extension[:40]}" is no file extension: write it as ".md".')
        checked.append(f".{bare}")
    if not checked:
        raise ConfigurationError('extensions is empty, so no file would be read: write extensions=[".md"].')
    return tuple(sorted(set(checked)))


def checked_trusted(factory: str, trusted: object) -> bool:
    """Check the option ``trusted`` of the function ``factory``.

    Raises:
        ConfigurationError: it is no bool.
    """
    if not isinstance(trusted, bool):
        raise ConfigurationError(f"{factory}(): trusted is True or False.")
    return trusted


def check_path(path: str) -> None:
    """Check a relative POSIX path that becomes a document id.

    Raises:
        InvalidInputError: over 255 characters, or not UTF-8 on the disk (lone surrogates here).
    """
    if not is_text(path):
        raise InvalidInputError("its name is not UTF-8; rename it", field="id")
    if len(path) > ID_MAX_CHARS:
        raise InvalidInputError(f"its path is over {ID_MAX_CHARS} characters", field="id")


def is_text(name: str) -> bool:
    """Whether a file name is text; the bytes that are none became lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_size(size: int) -> None:
    """Check a file's size in bytes.

    Raises:
        InvalidInputError: over 1 048 576.
    """
    if size > FILE_MAX_BYTES:
        raise InvalidInputError(f"it is over {FILE_MAX_BYTES} bytes", field="content")


def file_document(path: str, data: bytes) -> DocumentInput:
    """A file as a document.

    Args:
        path: relative POSIX path: id and source.
        data: the whole file; a UTF-8 byte-order mark is stripped.

    Raises:
        InvalidInputError: the path, the size or the encoding breaks a rule; the message never holds content.
    """
    check_path(path)
    check_size(len(data))
    # ASCII text in UTF-16 without a mark is also valid UTF-8, with a NUL at every second place.
    if _looks_wide(data):
        raise InvalidInputError("it is UTF-16 or UTF-32, not UTF-8", field="content")
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError("it is not UTF-8", field="content") from None
    name = path.rpartition("/")[2]
    return DocumentInput(id=path, content=content, title=first_heading(content) or name, source=path)


def first_heading(text: str) -> str | None:
    """The first level-1 ``#`` heading outside fenced code, as CommonMark reads headings and fences."""
    fence: str | None = None
    for line in io.StringIO(text, newline=None):
        stripped = line.rstrip("\n")
        marker = _FENCE.fullmatch(stripped)
        if fence is not None:
            if marker and marker[1][0] == fence[0] and len(marker[1]) >= len(fence) and not marker[2].strip():
                fence = None
        elif marker:
            fence = marker[1]
        elif heading := _HEADING.fullmatch(stripped):
            title = _without_closing_hashes(heading[1] or "").strip()
            if title:
                return title if len(title) <= TITLE_MAX_CHARS else title[: TITLE_MAX_CHARS - 1] + "…"
    return None


def _without_closing_hashes(heading: str) -> str:
    bare = heading.rstrip(" \t").rstrip("#")
    return bare if not bare or bare[-1] in " \t" else heading


def _looks_wide(data: bytes) -> bool:
    if len(data) < 8 or len(data) % 2 or b"\x00" not in data:
        return False
    return max(data[::2].count(0), data[1::2].count(0)) * 4 > len(data)
