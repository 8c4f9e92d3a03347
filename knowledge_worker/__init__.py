"""Reference material for AI agents: indexed in the background, kept in step with its sources, searched by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knowledge_worker._version import __version__ as __version__
from knowledge_worker.declarations import KnowledgeCollection
from knowledge_worker.domain.document import DocumentInput, content_hash
from knowledge_worker.domain.match import Match, SearchResult, Unavailable
from knowledge_worker.errors import ConfigurationError, InvalidInputError, KnowledgeError, NotSearchableError
from knowledge_worker.ports import EmbeddingModel, Embeddings, KnowledgeSource, SourceContext
from knowledge_worker.sources.custom import define_knowledge_source
from knowledge_worker.sources.folder import folder
from knowledge_worker.sources.git import git

if TYPE_CHECKING:
    from fastapi import FastAPI

    from knowledge_worker.chunking import chunk_text
    from knowledge_worker.knowledge import Knowledge
    from knowledge_worker.tools import knowledge_tools

__all__ = [
    "ConfigurationError",
    "DocumentInput",
    "EmbeddingModel",
    "Embeddings",
    "InvalidInputError",
    "Knowledge",
    "KnowledgeCollection",
    "KnowledgeError",
    "KnowledgeSource",
    "Match",
    "NotSearchableError",
    "SearchResult",
    "SourceContext",
    "Unavailable",
    "chunk_text",
    "content_hash",
    "create_app",
    "define_knowledge_source",
    "folder",
    "git",
    "knowledge_tools",
]


def create_app(knowledge: Knowledge) -> FastAPI:
    """The REST API over ``knowledge`` as an ASGI application, to serve or to mount in another one."""
    from knowledge_worker._bundled import load_api

    return load_api().create_app(knowledge)


def __getattr__(name: str) -> Any:
    # Declaring collections stays quick: what connects to servers is imported when it is first named.
    if name == "Knowledge":
        from knowledge_worker.knowledge import Knowledge

        return Knowledge
    if name == "chunk_text":
        from knowledge_worker.chunking import chunk_text

        return chunk_text
    if name == "knowledge_tools":
        from knowledge_worker.tools import knowledge_tools

        return knowledge_tools
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
