"""Text into chunks; each chunker carries its version, which is part of a generation."""

from knowledge_worker.chunking.text import CHUNKER_VERSION, chunk_text

__all__ = ["CHUNKER_VERSION", "chunk_text"]
