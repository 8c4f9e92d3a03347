"""The front page: what this is, and links."""

from __future__ import annotations

from fastapi import APIRouter, Request

from ..views import IndexView


def index_router(*, version: str) -> APIRouter:
    """``/``; it needs no token."""
    router = APIRouter(tags=["health"])

    @router.get("/")
    def index(request: Request) -> IndexView:
        """Tell name and version, and where to go on."""
        root = request.scope.get("root_path", "")
        links = {name: f"{root}/{path}" for name, path in _LINKS.items()}
        return IndexView(name="knowledge-worker", version=version, links=links)

    return router


_LINKS = {"openapi": "openapi.json", "docs": "docs", "health": "healthz", "readiness": "readyz"}
