"""Health: whether the process lives, and whether everything it needs is there."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import Response

from knowledge_worker.errors import ServiceUnavailableError

from ..views import ErrorView, HealthView, ReadinessView

if TYPE_CHECKING:
    from knowledge_worker.knowledge import Knowledge


def health_router(knowledge: Knowledge) -> APIRouter:
    """``/healthz`` and ``/readyz``; neither needs a token."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> HealthView:
        """Tell that the process lives."""
        # The one coroutine: it answers also while every thread of the pool waits for a slow server.
        return HealthView()

    @router.get(
        "/readyz",
        responses={
            503: {"model": ReadinessView, "description": "Something is missing; `missing` names it."},
            500: {"model": ErrorView, "description": "Something went wrong here."},
        },
    )
    def readyz(response: Response) -> ReadinessView:
        """Tell whether database, Redis, migrations, a consumer of each queue and beat are there."""
        warnings: list[str] = []
        try:
            missing = knowledge.readiness()
            with suppress(ServiceUnavailableError):  # then that is what is missing
                warnings = knowledge.warnings()
        except ServiceUnavailableError as error:
            missing = [error.message]
        if missing:
            response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        return ReadinessView(
            status="unready" if missing else "ready", missing=missing or None, warnings=warnings or None
        )

    return router
