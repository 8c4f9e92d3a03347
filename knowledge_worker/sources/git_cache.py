"""The local copies of remote repositories: bare, shallow, shared by all processes of a machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from knowledge_worker.errors import SourceError
from knowledge_worker.ports import SourceContext
from knowledge_worker.sources.git_command import POLL_S, open_git, pipe_of, run_git
from knowledge_worker.sources.git_remote import Remote, is_commit_id

_LOCAL_TIMEOUT_S = 60.0
_ASK_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """A file in a commit.

    Attributes:
        mode: git's, such as ``100644``; ``120000`` is a symbolic link, ``160000`` a submodule.
        size: in bytes; 0 for a submodule.
        path: relative to the directory that was asked for, as the bytes git keeps.
    """

    mode: str
    oid: str
    size: int
    path: bytes


class DamagedCopyError(Exception):
    """The local copy lacks an object of a commit that it holds."""


class GitCopy:
    """The copy of one repository.

    Args:
        directory: of all copies; made when missing.
        remote: what is copied.
        timeout_s: for one fetch, and for waiting for another process that fetches.
    """

    def __init__(self, directory: Path, remote: Remote, *, timeout_s: float) -> None:
        key = hashlib.sha256(remote.url.encode()).hexdigest()[:32]
        self._directory = directory
        self._repository = directory / f"{key}.git"
        self._lock_path = directory / f"{key}.lock"
        self._remote = remote
        self._timeout_s = timeout_s

    def updated_commit(self, ref: str, *, context: SourceContext) -> str:
        """The commit that ``ref`` names now; fetched, without history, only when it moved.

        Raises:
            SourceError: the repository cannot be reached, has no such ref, or the copy cannot be written.
            PassCancelledError: the pass was asked to stop.
        """
        with self._locked(context) as lock:
            self._make_repository(context, lock)
            local_ref = f"refs/knowledge/{hashlib.sha256(ref.encode()).hexdigest()[:32]}"
            if is_commit_id(ref):
                wanted, moved = ref, self._resolve(local_ref, context, lock) is None
            else:
                wanted, tip = self._ask_remote(ref, context, lock)
                moved = self._resolve(local_ref, context, lock) != tip
            if moved:
                self._remove_stale_locks()
                fetch = ["fetch", "--quiet", "--force", "--no-tags", "--depth=1", "--no-write-fetch-head"]
                refspec = f"+{wanted}:{local_ref}"
                self._run([*fetch, "--", self._remote.url, refspec], context, lock, timeout_s=self._timeout_s)
            commit = self._resolve(f"{local_ref}^{{commit}}", context, lock)
            if commit is None:
                raise SourceError(f'{self._remote.written}: "{ref}" is no commit.')
            if self._resolve(f"{commit}^{{tree}}", context, lock) is None:
                self._discard_locked()
                raise self._damaged()
            return commit

    @contextmanager
    def opened_tree(self, commit: str, directory: str) -> Generator[Iterator[TreeEntry], None, None]:
        """The files below ``directory`` of ``commit``, in code-point order of their path, streamed.

        Raises (while iterated):
            DamagedCopyError: the copy lacks a part of the tree.
        """
        tree = f"{commit}:{directory}" if directory else commit
        with open_git(self._repository, ["ls-tree", "-r", "-z", "-l", tree], remote=self._remote) as process:
            yield _entries(process)

    @contextmanager
    def opened_blobs(self) -> Generator[BlobReader, None, None]:
        """A reader of file contents, open for as long as the read takes."""
        with open_git(self._repository, ["cat-file", "--batch"], remote=self._remote) as process:
            yield BlobReader(pipe_of(process.stdin), pipe_of(process.stdout))

    def has_directory(self, commit: str, directory: str) -> bool:
        """Whether ``directory`` is one in ``commit``."""
        with self.opened_blobs() as blobs:
            return blobs.kind(f"{commit}:{directory}".encode()) == "tree"

    def discard(self, context: SourceContext) -> SourceError:
        """Remove a damaged copy, so that the next read fetches anew; returns the error to raise."""
        with self._locked(context):
            self._discard_locked()
        return self._damaged()

    @contextmanager
    def _locked(self, context: SourceContext) -> Generator[int, None, None]:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SourceError(
                f"{self._remote.written}: the cache directory {self._directory} cannot be written "
                f"({os.strerror(error.errno or 0)}); pass cache_dir= to git()."
            ) from error
        try:
            deadline = time.monotonic() + self._timeout_s
            while not _try_lock(lock):
                context.raise_if_cancelled()
                if time.monotonic() > deadline:
                    raise SourceError(f"{self._remote.written}: another process has been fetching it for too long.")
                time.sleep(POLL_S)
            yield lock
        finally:
            os.close(lock)

    def _make_repository(self, context: SourceContext, lock: int) -> None:
        if self._repository.exists():
            try:
                self._run(["rev-parse", "--git-dir"], context, lock)
            except SourceError:
                self._discard_locked()
            else:
                return
        # A directory of its own until it is whole: init is many small writes.
        unfinished = self._repository.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        arguments = ["init", "--quiet", "--bare", "--template="]
        run_git(unfinished, arguments, remote=self._remote, context=context, timeout_s=_LOCAL_TIMEOUT_S, held=lock)
        unfinished.rename(self._repository)

    def _ask_remote(self, ref: str, context: SourceContext, lock: int) -> tuple[str, str]:
        """The full name of ``ref`` and what it points at."""
        names = [ref] if ref == "HEAD" or ref.startswith("refs/") else [f"refs/heads/{ref}", f"refs/tags/{ref}"]
        arguments = ["ls-remote", "--quiet", "--", self._remote.url, *names]
        timeout_s = min(_ASK_TIMEOUT_S, self._timeout_s)
        output = self._run(arguments, context, lock, timeout_s=timeout_s)
        # The patterns also match the ends of other names.
        tips = {name: oid for oid, _, name in (line.partition("\t") for line in output.splitlines())}
        for name in names:
            if name in tips:
                return name, tips[name]
        what = "it has no commit" if ref == "HEAD" else f'it has no branch or tag "{ref}"'
        raise SourceError(f"{self._remote.written}: {what}.")

    def _resolve(self, name: str, context: SourceContext, lock: int) -> str | None:
        try:
            return self._run(["rev-parse", "--verify", "--quiet", name], context, lock).strip() or None
        except SourceError:
            return None

    def _run(
        self, arguments: list[str], context: SourceContext, lock: int, *, timeout_s: float = _LOCAL_TIMEOUT_S
    ) -> str:
        return run_git(
            self._repository, arguments, remote=self._remote, context=context, timeout_s=timeout_s, held=lock
        )

    def _remove_stale_locks(self) -> None:
        # We hold the lock, and so would any git command still at work: what lies here was left by a killed one.
        for pattern in ("*.lock", "refs/knowledge/*.lock", "objects/info/*.lock", "gc.pid"):
            for path in self._repository.glob(pattern):
                path.unlink(missing_ok=True)

    def _discard_locked(self) -> None:
        gone = self._repository.with_suffix(".damaged")
        shutil.rmtree(gone, ignore_errors=True)
        if self._repository.exists():
            self._repository.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def _damaged(self) -> SourceError:
        return SourceError(f"{self._remote.written}: the local copy was damaged; the next read fetches it anew.")


class BlobReader:
    """File contents by object id, one request and one answer at a time."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests = requests
        self._answers = answers

    def read(self, oid: str) -> bytes:
        """The bytes of a blob.

        Raises:
            DamagedCopyError: the copy does not hold it.
        """
        answered = self._ask(oid.encode())
        if answered is None or answered[0] != "blob":
            raise DamagedCopyError
        return answered[1]

    def kind(self, name: bytes) -> str | None:
        """The kind of an object, such as ``tree``; None when there is none of this name."""
        answered = self._ask(name)
        return answered[0] if answered is not None else None

    def _ask(self, name: bytes) -> tuple[str, bytes] | None:
        try:
            self._requests.write(name + b"\n")
            self._requests.flush()
        except BrokenPipeError:
            return None
        header = self._answers.readline().rstrip(b"\n").rsplit(b" ", 2)
        if len(header) != 3 or not header[2].isdigit():
            return None
        size = int(header[2])
        data = self._answers.read(size + 1)
        return (header[1].decode(), data[:-1]) if len(data) == size + 1 else None


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _entries(process: subprocess.Popen[bytes]) -> Iterator[TreeEntry]:
    output = pipe_of(process.stdout).fileno()
    rest = b""
    while block := os.read(output, 65536):
        *whole, rest = (rest + block).split(b"\x00")
        for line in whole:
            facts, _, path = line.partition(b"\t")
            mode, _, oid, size = facts.decode("ascii").split()
            yield TreeEntry(mode=mode, oid=oid, size=int(size) if size.isdigit() else 0, path=path)
    # A listing that broke off must not look like a smaller repository.
    if process.wait() or rest:
        raise DamagedCopyError
