"""A typed client of the REST API: :class:`KnowledgeClient`, and :class:`AsyncKnowledgeClient` for code that awaits.

It needs httpx and pydantic and imports nothing of the service, so an agent's process stays small.
"""

from __future__ import annotations

from knowledge_worker.client.asynchronous import AsyncKnowledgeClient
from knowledge_worker.client.blocking import KnowledgeClient
from knowledge_worker.client.models import (
    BatchResult,
    Collection,
    Document,
    DocumentCounts,
    DocumentPage,
    Pass,
    PassCounts,
    Plan,
    PutResult,
    Readiness,
)

__all__ = [
    "AsyncKnowledgeClient",
    "BatchResult",
    "Collection",
    "Document",
    "DocumentCounts",
    "DocumentPage",
    "KnowledgeClient",
    "Pass",
    "PassCounts",
    "Plan",
    "PutResult",
    "Readiness",
]
