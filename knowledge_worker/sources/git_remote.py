"""Where a Git repository is, and which commit of it is meant: checked, and without its password."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from knowledge_worker.errors import ConfigurationError
from knowledge_worker.sources.messages import without_credentials

PROTOCOLS = ("file", "git", "http", "https", "ssh")

_SCP_LIKE = re.compile(r"(?:[\w.+-]+@)?[\w][\w.-]*:(?!//)[^:].*")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# What `git check-ref-format` refuses, and a leading dash, which git would read as an option.
_BAD_REF = re.compile(r"^[-/]|\.\.|//|@\{|[\x00-\x20\x7f~^:?*\[\\]|(^|/)\.|\.lock(/|$)|[/.]$|^@$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A repository's address.

    Attributes:
        url: what git is told; an absolute path for a local repository; never holds a password.
        written: as the code has it, without credentials: for messages and fingerprints.
        full_url: with credentials; reaches git through its environment, which other users cannot read.
        secrets: texts that must not appear anywhere.
    """

    url: str
    written: str
    local: bool = False
    full_url: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def parse_remote(address: object) -> Remote:
    """Check a URL or path of a repository; a relative path is resolved against the working directory now.

    Raises:
        ConfigurationError: it is neither, or its protocol is not allowed; never shows a password.
    """
    text = os.fspath(address) if isinstance(address, str | os.PathLike) else None
    if not isinstance(text, str) or not text or text.startswith("-") or not text.isprintable():
        raise ConfigurationError('git() needs a URL or a path: write git("https://host/team/docs.git").')
    if "://" in text:
        return _from_url(text)
    if re.match(r"[\w+.-]+::", text):
        raise ConfigurationError(f"git(): remote helpers are not allowed; use one of {', '.join(PROTOCOLS)}.")
    if _SCP_LIKE.fullmatch(text) and not os.path.exists(text):  # noqa: PTH110 - a text, not yet known to be a path
        return Remote(url=text, written=text)
    path = os.path.abspath(text)  # noqa: PTH100 - resolve() would follow the links
    return Remote(url=path, written=os.path.normpath(text), local=True)


def _from_url(text: str) -> Remote:
    shown = without_credentials(text)
    try:
        parts = urlsplit(text)
        host, user, password = parts.hostname or "", parts.username, parts.password
        _ = parts.port
    except ValueError:
        raise ConfigurationError(f'git(): "{shown}" is no URL.') from None
    if parts.scheme not in PROTOCOLS:
        raise ConfigurationError(f'git(): the protocol of "{shown}" is not one of {", ".join(PROTOCOLS)}.')
    if host.startswith("-") or (user or "").startswith("-") or not (host or parts.scheme == "file"):
        raise ConfigurationError(f'git(): "{shown}" names no host.')
    bare_netloc = parts.netloc.rpartition("@")[2]
    if parts.scheme == "ssh":
        # The user is part of an SSH address; its key comes from the agent, never from the URL.
        kept = f"{parts.netloc.rpartition('@')[0].partition(':')[0]}@" if user else ""
        return Remote(url=parts._replace(netloc=kept + bare_netloc).geturl(), written=shown)
    url = parts._replace(netloc=bare_netloc).geturl()
    if user is None and password is None:
        return Remote(url=url, written=shown)
    user_info = parts.netloc.rpartition("@")[0]
    # Without a password the user name is a token. Shorter texts would blot out half of every message.
    secrets = {part for secret in [password or user or ""] for part in (secret, unquote(secret)) if len(part) > 3}
    secrets.add(user_info)
    return Remote(url=url, written=shown, full_url=text, secrets=tuple(sorted(secrets, key=len, reverse=True)))


def checked_ref(ref: object) -> str:
    """Check a branch, a tag, a full ref name, ``HEAD`` or a full commit id.

    Raises:
        ConfigurationError: git could not have a ref of this name.
    """
    if not isinstance(ref, str) or not ref or len(ref) > 255 or _BAD_REF.search(ref):
        raise ConfigurationError('git(): ref is a branch, a tag or a full commit id: write ref="main".')
    return ref


def is_commit_id(ref: str) -> bool:
    """Whether ``ref`` is a full commit id rather than a name."""
    return _COMMIT.fullmatch(ref) is not None


def checked_directory(path: object) -> str:
    """Check the directory within the repository that is read; empty for all of it.

    Raises:
        ConfigurationError: it is no relative path, or leaves the repository.
    """
    hint = 'git(): path is a directory within the repository: write path="docs/guide".'
    if not isinstance(path, str) or not path.isprintable() or path.startswith("/"):
        raise ConfigurationError(hint)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ConfigurationError(hint)
    return "/".join(parts)
