"""The HTTP API. Inside it only relative imports: it is installed, and always loaded, as ``knowledge_worker_api``."""

from __future__ import annotations

from .app import create_app

__all__ = ["create_app"]
