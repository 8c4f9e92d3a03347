"""Bearer token → :class:`Principal`, before anything else is looked at (specification rule 51)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from knowledge_worker.config import TokenSettings
from knowledge_worker.domain.permission import READ, WRITE, allows
from knowledge_worker.errors import PermissionDeniedError, UnauthenticatedError

from .paths import HOOKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls.

    Attributes:
        id: the token's name in the settings; safe to log.
    """

    id: str
    permissions: tuple[str, ...]


def needed_permission(method: str, segments: Sequence[str | None]) -> str:
    """What a request needs: reading for GET, HEAD and every search, else writing.

    Args:
        segments: of the path below ``/knowledge``.
    """
    return READ if method in ("GET", "HEAD") or tuple(segments) == ("search",) else WRITE


def is_hook(method: str, segments: Sequence[str | None]) -> bool:
    """Whether a request goes to a webhook, which checks its signature itself and needs no token.

    Args:
        segments: of the path below ``/knowledge``; an empty or undecodable one names no webhook.
    """
    return method == "POST" and len(segments) == 2 and segments[0] == HOOKS and bool(segments[1])


class Tokens:
    """The configured tokens, kept as digests."""

    def __init__(self, tokens: Iterable[TokenSettings]) -> None:
        self._known: list[tuple[bytes, Principal]] = []
        for token in tokens:
            principal = Principal(id=token.id, permissions=token.permissions)
            self._known.append((_digest(token.value.get_secret_value().encode("utf-8")), principal))

    def authorise(self, headers: Iterable[tuple[bytes, bytes]], needed: str) -> Principal:
        """Find who calls and check that they may.

        Args:
            headers: of the request, names in lower case.
            needed: a permission.

        Raises:
            UnauthenticatedError: no token, one that is not configured, or no token is configured at all.
            PermissionDeniedError: the token lacks the permission.
        """
        principal = self._authenticate([value for name, value in headers if name == b"authorization"])
        if not allows(principal.permissions, needed):
            raise PermissionDeniedError(f'This token lacks the permission "{needed}".')
        return principal

    def _authenticate(self, values: Sequence[bytes]) -> Principal:
        if not self._known:
            raise UnauthenticatedError("No token is configured, so every request is refused; set KNOWLEDGE_TOKENS.")
        if not values:
            raise UnauthenticatedError('Send a token in the header "Authorization: Bearer <token>".')
        scheme, _, token = values[0].partition(b" ")
        if len(values) > 1 or scheme.lower() != b"bearer":
            raise UnauthenticatedError('Exactly one header "Authorization: Bearer <token>" is expected.')
        given = _digest(token.strip(b" "))
        found = None
        for digest, principal in self._known:  # all of them, so the time does not tell which one was close
            if hmac.compare_digest(digest, given):
                found = principal
        if found is None:
            raise UnauthenticatedError("This token is not known.")
        return found


def _digest(token: bytes) -> bytes:
    """Equal lengths for any token, so that comparing takes the same time for all."""
    return hashlib.sha256(token).digest()
