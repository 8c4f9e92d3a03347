"""Log files that cannot fill the disk."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import IO, Self

MAX_BYTES = 5 * 1024 * 1024


class LogFile:
    """Appends lines; at :data:`MAX_BYTES` it begins anew and keeps the former file as ``<name>.1``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._size = 0

    def write(self, line: bytes) -> None:
        """Append one line; a full disk costs the line, never the process."""
        try:
            if self._file is None or self._size >= MAX_BYTES:
                self.close()
                trim(self._path)
                self._file = self._path.open("ab", buffering=0)
                self._size = self._file.tell()
            self._size += self._file.write(line + b"\n") or 0
        except OSError:
            pass

    def close(self) -> None:
        """Close it; a later write opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def trim(path: Path) -> None:
    """Move a file that has grown to :data:`MAX_BYTES` aside."""
    if path.exists() and path.stat().st_size >= MAX_BYTES:
        path.replace(path.with_name(path.name + ".1"))


def tail(path: Path, *, since: int) -> str:
    """What was written after byte ``since``, at most its last 64 KiB."""
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(since, end - 65536))
        return file.read().decode(errors="replace")
