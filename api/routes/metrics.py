"""``/metrics``: what Prometheus reads, outside ``/knowledge``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from starlette.responses import Response

from knowledge_worker.errors import UnauthenticatedError
from knowledge_worker.telemetry.endpoint import may_read
from knowledge_worker.telemetry.prometheus import CONTENT_TYPE

from ..examples import METRICS
from ..views import ErrorView

if TYPE_CHECKING:
    from knowledge_worker.knowledge import Knowledge


def metrics_router(knowledge: Knowledge) -> APIRouter:
    """``/metrics``; it needs a token where ``KNOWLEDGE_METRICS_TOKEN`` is set."""
    router = APIRouter(tags=["health"])
    token = knowledge.settings.metrics_token

    @router.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {
                "content": {CONTENT_TYPE: {"schema": {"type": "string"}, "example": METRICS}},
                "description": "Text for Prometheus.",
            },
            401: {"model": ErrorView, "description": "KNOWLEDGE_METRICS_TOKEN is set and was not sent."},
            500: {"model": ErrorView, "description": "Something went wrong here."},
        },
    )
    def metrics(request: Request) -> Response:
        """Show the metrics of this process and the state of the whole deployment."""
        if not may_read(token, request.headers.get("Authorization", "")):
            raise UnauthenticatedError("Metrics are read with KNOWLEDGE_METRICS_TOKEN as a bearer token.")
        return Response(knowledge.metrics(), media_type=CONTENT_TYPE)

    return router
