"""Names that nobody declared are refused: a misspelt one would otherwise change silently what is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from fastapi.routing import APIRoute
from starlette.requests import Request

from .errors import UnknownFieldError

_SHOWN_NAME_MAX_CHARS: Final = 80


async def known_parameters(request: Request) -> None:
    """Compare the query string with the parameters of the route; a dependency of all routes below ``/knowledge``.

    Raises:
        UnknownFieldError: a parameter that the route does not declare.
    """
    route = cast("APIRoute", request.scope["route"])
    refuse_unknown(request.query_params, known=[parameter.alias for parameter in route.dependant.query_params])


def refuse_unknown(given: Iterable[str], *, known: Iterable[str]) -> None:
    """Refuse the first name that is not known.

    Raises:
        UnknownFieldError: ``field`` is the name, shortened where it is long.
    """
    expected = list(known)
    unknown = next((name for name in given if name not in expected), None)
    if unknown is None:
        return
    # JSON can spell a lone surrogate, which no answer could carry.
    shown = unknown[:_SHOWN_NAME_MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
    told = f"known here: {', '.join(expected)}" if expected else "there are none here"
    raise UnknownFieldError(f'"{shown}": not known; {told}.', field=shown)
