"""Names that nobody declared, or that come twice, are refused: they would change silently what is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast, get_args, get_origin

from fastapi.routing import APIRoute
from starlette.requests import Request

from .errors import SentFieldError

_SHOWN_NAME_MAX_CHARS: Final = 80


async def known_parameters(request: Request) -> None:
    """Compare the query string with the parameters of the route; a dependency of all routes below ``/knowledge``.

    Raises:
        SentFieldError: a parameter that the route does not declare, or several values of one that takes one.
    """
    route = cast("APIRoute", request.scope["route"])
    declared = {parameter.alias: parameter.field_info.annotation for parameter in route.dependant.query_params}
    given = [name for name, _ in request.query_params.multi_items()]
    refuse_unknown(given, known=declared)
    for name in given:
        if given.count(name) > 1 and not _takes_several(declared[name]):
            raise SentFieldError(f'"{name}": given several times.', field=name)


def _takes_several(annotation: Any) -> bool:
    """Whether a type is a list, or may be one."""
    return get_origin(annotation) is list or any(_takes_several(part) for part in get_args(annotation))


def refuse_unknown(given: Iterable[str], *, known: Iterable[str]) -> None:
    """Refuse the first name that is not known.

    Raises:
        SentFieldError: ``field`` is the name, shortened where it is long.
    """
    expected = list(known)
    unknown = next((name for name in given if name not in expected), None)
    if unknown is None:
        return
    # JSON can spell a lone surrogate, which no answer could carry.
    shown = unknown[:_SHOWN_NAME_MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
    told = f"known here: {', '.join(expected)}" if expected else "there are none here"
    raise SentFieldError(f'"{shown}": not known; {told}.', field=shown)
