"""What the OpenAPI document shows as answers."""

from __future__ import annotations

from typing import Final

from pydantic.config import JsonDict

_TIME: Final = "2026-01-31T12:00:00.120000Z"
_MODEL: Final = "openai/text-embedding-3-small"

COLLECTION: Final[JsonDict] = {
    "name": "handbook",
    "kind": "declared",
    "title": "Handbook",
    "trusted": True,
    "status": "ready",
    "model": _MODEL,
    "language": "simple",
    "generation": 1,
    "syncedAt": _TIME,
    "updatedAt": _TIME,
    "running": False,
    "documents": {"total": 12, "pending": 0, "ready": 12, "failed": 0},
    "passages": 140,
}

PASS: Final[JsonDict] = {
    "id": 17,
    "trigger": "interval",
    "outcome": "ok",
    "startedAt": "2026-01-31T11:59:58.500000Z",
    "endedAt": _TIME,
    "worker": "worker-1",
    "counts": {
        "read": 12,
        "added": 0,
        "changed": 1,
        "unchanged": 11,
        "deleted": 0,
        "skipped": 0,
        "failed": 0,
        "embedded": 2,
        "reused": 9,
        "calls": 1,
        "tokens": 410,
    },
}

PLAN: Final[JsonDict] = {
    "collection": "handbook",
    "model": _MODEL,
    "reembeds": False,
    "read": 12,
    "added": 0,
    "changed": 1,
    "unchanged": 11,
    "deleted": 0,
    "skipped": 0,
    "deletesHeldBack": False,
    "documents": 1,
    "passages": 2,
    "tokens": 410,
    "price": 0.0000082,
}

SEARCH: Final[JsonDict] = {
    "matches": [
        {
            "collection": "handbook",
            "document": "refunds.md",
            "index": 0,
            "text": "A refund takes five working days.",
            "score": 0.93,
            "scoreKind": "fused",
            "title": "Refunds",
            "source": "refunds.md",
            "section": ["Money", "Refunds"],
            "lines": [3, 5],
            "trusted": True,
        }
    ],
    "truncated": False,
    "unavailable": [{"collection": "tickets", "reason": 'Knowledge collection "tickets" is not ready.'}],
    "mode": "hybrid",
}

DOCUMENT_LISTED: Final[JsonDict] = {
    "id": "setup.md",
    "title": "Setting up",
    "source": "https://example.com/setup",
    "metadata": {"team": "platform"},
    "status": "ready",
    "hash": "8f09a90ae520f35dc26ad2c44264df7ad09bf8adf79ffac363dfc40fa686f894",
    "updatedAt": _TIME,
}

INDEX: Final[JsonDict] = {
    "name": "knowledge-worker",
    "version": "1.0.0",
    "links": {"openapi": "/openapi.json", "docs": "/docs", "health": "/healthz", "readiness": "/readyz"},
}

METRICS: Final = """# HELP knowledge_collection_documents Documents by status.
# TYPE knowledge_collection_documents gauge
knowledge_collection_documents{collection="handbook",status="ready"} 12.0
"""


def shown(*examples: JsonDict) -> JsonDict:
    """The examples of a model, for its ``json_schema_extra``."""
    return {"examples": list(examples)}
