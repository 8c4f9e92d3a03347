"""``create_app(knowledge)``: the ASGI application, to serve alone or to mount elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends, FastAPI, Security
from fastapi.routing import APIRoute
from starlette.middleware import Middleware

from knowledge_worker import __version__

from . import errors, openapi
from .auth import Tokens
from .gate import Gate, RequestLog
from .known import known_parameters
from .paths import BASE
from .routes.batch import batch_router
from .routes.collections import collections_router
from .routes.documents import documents_router
from .routes.health import health_router
from .routes.hooks import hooks_router
from .routes.index import index_router
from .routes.metrics import metrics_router
from .routes.search import search_router

if TYPE_CHECKING:
    from knowledge_worker.knowledge import Knowledge

DESCRIPTION = "Reference material for AI agents: collections of documents, kept in step and searched by meaning."


def create_app(knowledge: Knowledge) -> FastAPI:
    """Build the HTTP API over ``knowledge``; its settings say which tokens are known."""
    settings = knowledge.settings
    app = FastAPI(
        title="knowledge-worker",
        version=__version__,
        description=DESCRIPTION,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        # A path with a slash too many is another path, and another path is 404.
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
        middleware=[
            Middleware(RequestLog, observer=knowledge.observer),
            Middleware(Gate, tokens=Tokens(settings.tokens), root_path=settings.root_path),
        ],
    )
    app.state.body_limit = settings.body_limit
    errors.install(app)
    openapi.install(app)
    below_base = APIRouter(prefix=f"/{BASE}", dependencies=[Security(openapi.BEARER), Depends(known_parameters)])
    below_base.include_router(collections_router(knowledge))
    below_base.include_router(documents_router(knowledge))
    below_base.include_router(batch_router(knowledge))
    below_base.include_router(search_router(knowledge))
    app.include_router(below_base)
    app.include_router(hooks_router(knowledge), prefix=f"/{BASE}")
    app.include_router(health_router(knowledge))
    app.include_router(metrics_router(knowledge))
    app.include_router(index_router(version=__version__))
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name
