"""Inbound webhooks: a signed request asks for a sync (specification rule 57)."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends, Path, Security
from fastapi.security import APIKeyHeader
from starlette.requests import ClientDisconnect, Request

from knowledge_worker.errors import InputTooLargeError, InvalidInputError, NotFoundError

from ..document_views import HookView
from ..errors import UnsignedError
from ..known import known_parameters
from ..openapi import any_body, problems
from ..paths import HOOKS

if TYPE_CHECKING:
    from knowledge_worker.knowledge import Knowledge

BODY_MAX_BYTES: Final = 26_214_400
"""25 MiB, the most that GitHub sends."""

_HEADER: Final = "X-Hub-Signature-256"
_SIGNATURE: Final = re.compile(r"sha256=([0-9A-Fa-f]{64})")
_SHOWN_NAME_MAX_CHARS: Final = 80

SIGNATURE: Final = APIKeyHeader(
    name=_HEADER,
    scheme_name="hookSignature",
    auto_error=False,
    description="`sha256=` and the HMAC-SHA256 of the body under the hook's secret, hexadecimal.",
)
"""Only documents the header."""

HookInPath = Annotated[str, Path(description="The hook's name in KNOWLEDGE_HOOKS.", examples=["docs-push"])]


def hooks_router(knowledge: Knowledge) -> APIRouter:
    """``POST /hooks/:name``; the one route below ``/knowledge`` that takes a signature and no token."""
    hooks = knowledge.settings.hooks

    async def check_signature(request: Request, name: HookInPath) -> None:
        hook = hooks.get(name)
        if hook is None:
            raise NotFoundError(f'There is no hook "{name[:_SHOWN_NAME_MAX_CHARS]}".')
        await _check_signature(request, hook.secret.get_secret_value().encode("utf-8"))

    # In this order: who cannot sign learns nothing of parameters.
    router = APIRouter(
        prefix=f"/{HOOKS}",
        tags=["hooks"],
        dependencies=[Security(SIGNATURE), Depends(check_signature), Depends(known_parameters)],
    )

    @router.post(
        "/{name:segment}",
        status_code=202,
        responses=problems(404, 413, without=(403,)),
        openapi_extra=any_body("Anything; it is only compared with its signature."),
    )
    def receive_hook(name: HookInPath) -> HookView:
        """Ask for a sync of the hook's collections. The requests are stored before this is answered."""
        collections = hooks[name].collections
        missing: NotFoundError | None = None
        for collection in collections:
            try:
                knowledge.sync(collection)
            except NotFoundError as error:  # the others are asked for all the same
                missing = missing or error
        if missing is not None:
            raise missing
        return HookView(collections=list(collections))

    return router


async def _check_signature(request: Request, secret: bytes) -> None:
    """Compare the body with its signature, part by part; it is not kept.

    Raises:
        UnsignedError: no signature, several, none in this form, or one of another body or secret.
        InputTooLargeError: more than 25 MiB.
    """
    given = request.headers.getlist(_HEADER)
    signature = _SIGNATURE.fullmatch(given[0]) if len(given) == 1 else None
    if signature is None:
        raise UnsignedError(f'Exactly one header "{_HEADER}: sha256=<64 hexadecimal digits>" is expected.')
    counted = 0
    code = hmac.new(secret, digestmod=hashlib.sha256)
    try:
        async for part in request.stream():
            counted += len(part)
            if counted > BODY_MAX_BYTES:
                raise InputTooLargeError(f"The body has more than {BODY_MAX_BYTES} bytes.")
            code.update(part)
    except ClientDisconnect:
        raise InvalidInputError("The body ended early.") from None
    if not hmac.compare_digest(code.digest(), bytes.fromhex(signature[1])):
        raise UnsignedError("The signature is not that of this body under the hook's secret.")
