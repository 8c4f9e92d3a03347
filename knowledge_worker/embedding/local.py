"""The models that run in this process without a network: ``local/<name>``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from knowledge_worker.embedding.minilm import MiniLMModel
from knowledge_worker.embedding.static import WordLlamaModel
from knowledge_worker.ports import EmbeddingModel

LOCAL_MODELS: Mapping[str, Callable[[], EmbeddingModel]] = MappingProxyType(
    {"wordllama": WordLlamaModel, "all-minilm-l6-v2": MiniLMModel}
)
"""Name to what makes it; making one loads nothing, and raises ConfigurationError when its extra is missing."""
