"""The body of a request: a JSON object within the limit, whatever its Content-Type says (specification rule 52)."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, NoReturn, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError
from starlette.requests import ClientDisconnect, Request

from knowledge_worker.errors import InputTooLargeError, InvalidInputError

from .errors import SentFieldError, invalid_input
from .known import refuse_unknown

Model = TypeVar("Model", bound=BaseModel)

_SHOWN_NAME_MAX_CHARS: Final = 80


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber: TypeAlias = Annotated[int, BeforeValidator(_whole)]
"""An integer as JSON has it: ``1.0`` is one, and ``"1"`` and ``true`` are none."""


async def json_object(request: Request) -> dict[str, Any]:
    """Read the body; a dependency of routes.

    Raises:
        InputTooLargeError: more bytes than the application's ``body_limit``; reading stops there.
        InvalidInputError: no JSON object in UTF-8.
    """
    return parse_object(await _read(request, limit=request.app.state.body_limit))


async def optional_json_object(request: Request) -> dict[str, Any]:
    """Read the body as :func:`json_object` does; one without a byte stands for ``{}``."""
    return parse_object(await _read(request, limit=request.app.state.body_limit) or b"{}")


def checked(model: type[Model], values: dict[str, Any]) -> Model:
    """Make a ``model`` of ``values``.

    Raises:
        SentFieldError: a field that ``model`` does not have.
        InvalidInputError: a field is missing or wrong; ``field`` names it.
    """
    refuse_unknown(values, known=[info.alias or name for name, info in model.model_fields.items()])
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise invalid_input(error) from None


def parse_object(text: bytes, *, called: str = "body") -> dict[str, Any]:
    """Read a JSON object.

    Args:
        called: what the text is, for the message.

    Raises:
        SentFieldError: an object in it, however deep, has two values of one name.
        InvalidInputError: no JSON object in UTF-8, or one with a number that Python cannot hold.
    """
    try:
        value = json.loads(
            text.decode("utf-8"), parse_int=_integer, parse_constant=_refuse, object_pairs_hook=_each_name_once
        )
    except _NamedTwiceError as error:
        raise SentFieldError(f'"{error.shown}": given several times.', field=error.shown) from None
    except _TooManyDigitsError:
        raise InvalidInputError(f"A number in the {called} is too large.") from None
    except (ValueError, RecursionError):
        raise InvalidInputError(f"The {called} is no JSON object.") from None
    if not isinstance(value, dict):
        raise InvalidInputError(f"The {called} is no JSON object.")
    return value


async def _read(request: Request, *, limit: int) -> bytes:
    too_large = InputTooLargeError(
        f"The body has more than {limit} bytes; KNOWLEDGE_BODY_LIMIT sets how many it may have."
    )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 20 or int(declared) > limit):
        raise too_large
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > limit:
                raise too_large
    except ClientDisconnect:
        raise InvalidInputError("The body ended early.") from None
    return bytes(body)


class _NamedTwiceError(Exception):
    """An object has two values of one name; which of them is meant nobody can tell."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # JSON can spell a lone surrogate, which no answer could carry.
        self.shown = name[:_SHOWN_NAME_MAX_CHARS].encode("utf-8", "replace").decode("utf-8")


class _TooManyDigitsError(Exception):
    """Python reads no integer of more than some thousand digits."""


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        raise _NamedTwiceError(next(name for name, _ in pairs if name in seen or seen.add(name)))
    return values


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise _TooManyDigitsError from None


def _refuse(constant: str) -> NoReturn:
    """``NaN`` and ``Infinity`` are no JSON, though Python reads them."""
    raise ValueError(constant)
