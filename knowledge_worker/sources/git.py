"""``git(url_or_path)``: the text files of a commit, read without a work tree.

No work tree means that nothing in the repository can act: no link is followed, no submodule entered, no hook or
filter run. Every pass yields the whole set; what did not change is read from the local copy and not embedded again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from knowledge_worker.domain.document import DocumentInput, shown_id
from knowledge_worker.errors import ConfigurationError, InvalidInputError, SourceError
from knowledge_worker.ports import KnowledgeSource, SourceContext
from knowledge_worker.sources.git_cache import BlobReader, DamagedCopyError, GitCopy, TreeEntry
from knowledge_worker.sources.git_command import check_git
from knowledge_worker.sources.git_remote import Remote, checked_directory, checked_ref, parse_remote
from knowledge_worker.sources.textfile import (
    check_path,
    check_size,
    checked_extensions,
    checked_trusted,
    file_document,
)

_LINK, _SUBMODULE = "120000", "160000"


def git(
    url_or_path: str | os.PathLike[str],
    ref: str = "HEAD",
    path: str = "",
    trusted: bool = False,
    extensions: Iterable[str] | None = None,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    timeout_ms: int = 600_000,
) -> KnowledgeSource:
    """The text files of a Git repository at one ref, by the rules of :func:`folder`.

    Args:
        url_or_path: ``https://``, ``ssh://``, ``git@host:path``, ``git://``, ``http://``, ``file://``, or the path of
            a local repository, of which only what is committed is read. Credentials in the URL reach git and nothing
            else.
        ref: a branch, a tag, a full ref name, or a full commit id; the default branch when not given.
        path: only this directory; ids are relative to it.
        trusted: whether only the application's owners can write to it.
        extensions: as of a folder.
        cache_dir: where local copies are kept, shared by the processes of a machine; by default
            ``$XDG_CACHE_HOME/knowledge-worker/git``.
        timeout_ms: a fetch that takes longer is given up.

    Raises:
        ConfigurationError: an option breaks a rule.
    """
    return GitSource(
        remote=parse_remote(url_or_path),
        ref=checked_ref(ref),
        path=checked_directory(path),
        trusted=checked_trusted("git", trusted),
        extensions=checked_extensions(extensions),
        cache_dir=_cache_directory(cache_dir),
        timeout_ms=_checked_timeout(timeout_ms),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSource:
    """A repository at one ref; made by :func:`git`."""

    remote: Remote
    ref: str
    path: str
    trusted: bool
    extensions: tuple[str, ...]
    cache_dir: Path
    timeout_ms: int
    kind: str = field(default="git", init=False)

    @property
    def fingerprint(self) -> str:
        """The options, without credentials and without where the copy lies."""
        trust = "trusted" if self.trusted else "untrusted"
        return f"git {self.remote.written} {self.ref} {self.path} {' '.join(self.extensions)} {trust}"

    def check(self) -> None:
        """Check that git is there, and a local repository; a remote one is not asked."""
        check_git()
        if not self.remote.local:
            return
        root = Path(self.remote.url)
        if not root.is_dir():
            raise ConfigurationError(f'git("{self.remote.written}"): there is no such directory; correct the path.')
        if not (root / ".git").exists() and not (root / "HEAD").is_file():
            raise ConfigurationError(f'git("{self.remote.written}"): it is no Git repository; name its top directory.')

    def documents(self, context: SourceContext) -> Iterator[DocumentInput]:
        """Yield the files of the newest commit, in code-point order of their path.

        Raises:
            SourceError: it cannot be fetched, or has no such ref or directory.
        """
        copy = GitCopy(self.cache_dir, self.remote, timeout_s=self.timeout_ms / 1000)
        commit = copy.updated_commit(self.ref, context=context)
        if not copy.has_directory(commit, self.path):
            raise SourceError(f'{self.remote.written}: commit {commit[:12]} has no directory "{self.path}".')
        try:
            yield from self._files(copy, commit, context)
        except DamagedCopyError:
            raise copy.discard(context) from None

    def _files(self, copy: GitCopy, commit: str, context: SourceContext) -> Iterator[DocumentInput]:
        with copy.opened_tree(commit, self.path) as entries, copy.opened_blobs() as blobs:
            for entry in entries:
                context.raise_if_cancelled()
                try:
                    document = self._document(entry, blobs)
                except InvalidInputError as error:
                    context.on_error(f"{shown_id(_text(entry.path))}: {error.message}.")
                    continue
                if document is not None:
                    yield document

    def _document(self, entry: TreeEntry, blobs: BlobReader) -> DocumentInput | None:
        path = _text(entry.path)
        if any(part.startswith(".") for part in path.split("/")):
            return None
        if entry.mode == _LINK:
            raise InvalidInputError("it is a symbolic link; links are not followed")
        if entry.mode == _SUBMODULE:
            raise InvalidInputError("it is a submodule; declare its repository as a source of its own")
        if not path.lower().endswith(self.extensions):
            return None
        check_path(path)
        check_size(entry.size)
        return file_document(path, blobs.read(entry.oid))


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _checked_timeout(timeout_ms: object) -> int:
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int) or timeout_ms < 1:
        raise ConfigurationError("git(): timeout_ms is a whole number of milliseconds, 1 or more.")
    return timeout_ms


def _cache_directory(cache_dir: object) -> Path:
    if cache_dir is not None:
        if not isinstance(cache_dir, str | os.PathLike) or not os.fspath(cache_dir):
            raise ConfigurationError("git(): cache_dir is the path of a directory.")
        return Path(os.path.abspath(os.fsdecode(cache_dir)))  # noqa: PTH100 - a link may be re-pointed later
    configured = os.environ.get("XDG_CACHE_HOME")
    try:
        root = Path(configured) if configured and Path(configured).is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        raise ConfigurationError("git(): there is no home directory for its copies: pass cache_dir=.") from None
    return root / "knowledge-worker" / "git"
