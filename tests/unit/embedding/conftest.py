from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from knowledge_worker.embedding.openai import OpenAIModel
from knowledge_worker.testing.provider import ScriptedProvider

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as server:
        yield server


@pytest.fixture
def make_model(provider: ScriptedProvider) -> Iterator[Callable[..., OpenAIModel]]:
    """Makes models of that provider and closes them at the end."""
    made: list[OpenAIModel] = []

    def make(**changes: Any) -> OpenAIModel:
        options: dict[str, Any] = {
            "provider": "acme",
            "model": "embed-1",
            "base_url": provider.base_url,
            "key": KEY,
            "key_variable": "ACME_API_KEY",
        }
        model = OpenAIModel(**{**options, **changes})
        made.append(model)
        return model

    yield make
    for model in made:
        model.close()
