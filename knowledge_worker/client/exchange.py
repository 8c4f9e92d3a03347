"""One request, and what can come of it; no socket is touched here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus
from typing import Final, Generic, TypeVar

import httpx

Result = TypeVar("Result")

OK: Final = frozenset(range(200, 300))
BUSY: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Statuses after which the same request may succeed."""

_NEVER_CONNECTED: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_LASTING: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class Repeat(Enum):
    """After which failures a request is sent again."""

    ANY = auto()
    """It may be carried out twice: reads, and what leaves the same state the second time."""
    UNSENT = auto()
    """Only when it certainly never left: no connection was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent.

    Attributes:
        path: below the base URL, percent-encoded.
        authorised: with the token.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = field(default=None, repr=False)
    authorised: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer.

    Attributes:
        headers: names are looked up without case.
        body: as far as it came.
        broken: why it did not come whole; None when it did.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    broken: httpx.RequestError | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer."""

    error: httpx.RequestError

    @property
    def sent(self) -> bool:
        """Whether the request may have been carried out."""
        return not isinstance(self.error, _NEVER_CONNECTED)

    @property
    def lasting(self) -> bool:
        """Whether another try would end the same way: a certificate that is not trusted, redirects in a circle."""
        passing = isinstance(self.error, httpx.TransportError) and not isinstance(self.error, _LASTING)
        return not passing or "CERTIFICATE_VERIFY_FAILED" in str(self.error)


Outcome = Reply | Lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[Result]):
    """A request with the meaning of its answer.

    Attributes:
        parse: makes the result of a reply with an expected status; raises ValueError where it cannot.
        expected: statuses that are no errors.
        repeat: after which failures it is sent again.
        gone: an error code that means success when an earlier try, whose answer was lost, may have done the work.
        collection: that the request names.
    """

    request: Request
    parse: Callable[[Reply], Result]
    expected: frozenset[int] = OK
    repeat: Repeat = Repeat.ANY
    gone: str | None = None
    collection: str = ""
