"""Where the service is and how its clients introduce themselves; what sync and async sending have in common."""

from __future__ import annotations

from typing import Any, Final

import httpx

from knowledge_worker.client.exchange import Request
from knowledge_worker.client.flows import Patience
from knowledge_worker.errors import ConfigurationError

TIMEOUT_S: Final = 30.0
RETRY_FOR_S: Final = 30.0

_HEADERS: Final = {"Accept": "application/json", "User-Agent": "knowledge-worker-client"}


class Connection:
    """The address and the token, checked; neither its repr nor an error shows the token.

    Args:
        base_url: of the service, with its path prefix if it has one, such as ``https://example.com/kb``.
        token: sent as a bearer token.
        retry_for_s: how long failures that may pass are put up with.

    Raises:
        ConfigurationError: the address or the token cannot be used.
    """

    def __init__(self, base_url: str, *, token: str | None, retry_for_s: float) -> None:
        self.base_url = _checked_base_url(base_url)
        self.patience = Patience(address=self.base_url, retry_for_s=retry_for_s)
        self._authorization = {} if token is None else {"Authorization": f"Bearer {_checked_token(token)}"}

    def build(self, request: Request) -> dict[str, Any]:
        """The arguments of ``build_request`` for a request."""
        authorization = self._authorization if request.authorised else {}
        return {
            "method": request.method,
            "url": self.base_url + request.path,
            "params": dict(request.params) or None,
            "headers": {**_HEADERS, **request.headers, **authorization},
            "content": request.body,
        }

    def auth(self, request: Request) -> dict[str, Any]:
        """The arguments of ``send``: where a token is sent, no other authentication may replace it."""
        return {"auth": None} if request.authorised and self._authorization else {}


def _checked_base_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url.rstrip("/"))
    except (httpx.InvalidURL, TypeError, AttributeError):
        raise ConfigurationError("The base URL is no URL: write it as https://example.com.") from None
    if url.userinfo:
        raise ConfigurationError("The base URL holds a user name: give the token as token=… instead.")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise ConfigurationError("The base URL is http or https, a host and perhaps a path: https://example.com/kb.")
    return str(url).rstrip("/")


def _checked_token(token: str) -> str:
    # Said here and without the value: the HTTP library would show what it cannot send.
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("The token is empty or holds something other than printable ASCII without spaces.")
    return token
