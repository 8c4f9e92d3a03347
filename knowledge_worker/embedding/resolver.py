"""``"<provider>/<model id>"`` to a model: the one place that knows the providers and reads their keys."""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Iterable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from knowledge_worker.embedding.openai import OpenAIModel
from knowledge_worker.errors import ConfigurationError
from knowledge_worker.ports import EmbeddingModel

_OPENAI_URL = "https://api.openai.com/v1"
_OPENAI_MAX_INPUTS = 2048
_OPENAI_MAX_REQUEST_TOKENS = 300_000
_OPENAI_MAX_INPUT_TOKENS = 8192
_IN_PROCESS = ("local", "fastembed")


class ProviderOptions(Protocol):
    """One entry of ``KNOWLEDGE_PROVIDERS``; ``config.ProviderSettings`` is one."""

    @property
    def base_url(self) -> str:
        """Address of the API."""
        ...

    @property
    def key_variable(self) -> str | None:
        """The environment variable that holds the key; None: no key is sent."""
        ...

    @property
    def max_inputs(self) -> int:
        """The most texts of one request."""
        ...

    @property
    def max_request_tokens(self) -> int | None:
        """The most tokens of one request."""
        ...

    @property
    def max_input_tokens(self) -> int | None:
        """The most tokens of one text."""
        ...

    @property
    def dimensions(self) -> int | None:
        """Asked of the model."""
        ...


def model_id(model: str | EmbeddingModel) -> str:
    """The id a generation stores, of a name or of an object that is used as is.

    Raises:
        ConfigurationError: it is neither.
    """
    if isinstance(model, str):
        return "/".join(_split(model))
    if not isinstance(model, EmbeddingModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f'A model is "<provider>/<model id>" or an object with id, dimensions, max_inputs and embed, '
            f"not {type(model).__name__}."
        )
    return "/".join(_split(model.id))


class Models:
    """A :class:`~knowledge_worker.ports.ModelResolver` over the built-in providers and those of the settings.

    Args:
        providers: OpenAI-compatible servers by name; one named ``openai`` replaces the built-in one.
        quota_retry_ms: the shortest wait after exhausted credit.
        environ: where keys are read; None is the environment.

    Raises:
        ConfigurationError: a provider takes the name of a built-in one, or its address is none.
    """

    def __init__(
        self,
        *,
        providers: Mapping[str, ProviderOptions] | None = None,
        quota_retry_ms: int = 900_000,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._providers = dict(providers or {})
        self._quota_retry_ms = quota_retry_ms
        self._environ = os.environ if environ is None else environ
        self._models: dict[str, EmbeddingModel] = {}
        self._lock = threading.Lock()
        for name, options in self._providers.items():
            if name in _IN_PROCESS or not name or "/" in name:
                raise ConfigurationError(f'KNOWLEDGE_PROVIDERS: a provider cannot be called "{name}".')
            _checked_url(options.base_url, f"KNOWLEDGE_PROVIDERS ({name}.base_url)")

    def __repr__(self) -> str:
        return f"Models({', '.join(self._known())})"

    def resolve(self, model: str | EmbeddingModel) -> EmbeddingModel:
        """The model of that name, the same object each time; an object that is a model already is used as is.

        Raises:
            ConfigurationError: no such provider or model, no key, an extra is missing; the message says what to do.
        """
        name = model_id(model)
        if not isinstance(model, str):
            return model
        with self._lock:
            if name not in self._models:
                self._models[name] = self._make(*_split(name))
            return self._models[name]

    def close(self) -> None:
        """Close every connection of this process; models go on working and open new ones."""
        with self._lock:
            models = list(self._models.values())
        for model in models:
            if isinstance(model, OpenAIModel):
                model.close()

    def _make(self, provider: str, model: str) -> EmbeddingModel:
        options = self._providers.get(provider)
        if options is not None:
            variable = options.key_variable or ("OPENAI_API_KEY" if provider == "openai" else None)
            return OpenAIModel(
                provider=provider,
                model=model,
                base_url=options.base_url,
                key=None if variable is None else self._key(variable, f"{provider}/{model}"),
                key_variable=variable,
                max_inputs=options.max_inputs,
                max_request_tokens=options.max_request_tokens,
                max_input_tokens=options.max_input_tokens,
                dimensions=options.dimensions,
                quota_retry_ms=self._quota_retry_ms,
            )
        match provider:
            case "openai":
                return OpenAIModel(
                    provider=provider,
                    model=model,
                    base_url=_checked_url(self._environ.get("OPENAI_BASE_URL") or _OPENAI_URL, "OPENAI_BASE_URL"),
                    key=self._key("OPENAI_API_KEY", f"{provider}/{model}"),
                    key_variable="OPENAI_API_KEY",
                    max_inputs=_OPENAI_MAX_INPUTS,
                    max_request_tokens=_OPENAI_MAX_REQUEST_TOKENS,
                    max_input_tokens=_OPENAI_MAX_INPUT_TOKENS,
                    quota_retry_ms=self._quota_retry_ms,
                )
            case "local":
                return _local_model(model)
            case "fastembed":
                from knowledge_worker.embedding.fastembed import FastEmbedModel

                return FastEmbedModel(model)
            case _:
                raise ConfigurationError(
                    f'There is no embedding provider "{provider}".{_hint(provider, self._known())} '
                    "Further OpenAI-compatible servers are named in KNOWLEDGE_PROVIDERS."
                )

    def _known(self) -> list[str]:
        return sorted({"openai", *_IN_PROCESS, *self._providers})

    def _key(self, variable: str, model: str) -> str:
        key = self._environ.get(variable, "").strip()
        if not key:
            raise ConfigurationError(f'Model "{model}" needs a key: set {variable}.')
        if not (key.isascii() and key.isprintable()):
            raise ConfigurationError(f"{variable} holds characters that no key has.")
        return key


def _local_model(name: str) -> EmbeddingModel:
    from knowledge_worker.embedding.local import LOCAL_MODELS

    if name not in LOCAL_MODELS:
        raise ConfigurationError(f'There is no local model "{name}".{_hint(name, LOCAL_MODELS)}')
    return LOCAL_MODELS[name]()


def _split(model: str) -> tuple[str, str]:
    provider, slash, name = model.partition("/")
    if not (provider and slash and name) or any(character.isspace() for character in model):
        raise ConfigurationError(
            f'"{model[:80]}" is no model: write "<provider>/<model id>", such as "openai/text-embedding-3-small".'
        )
    return provider, name


def _hint(wrong: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(wrong.lower(), names, n=1, cutoff=0.6)
    return f"{f' Did you mean {close[0]}?' if close else ''} Known: {', '.join(names)}."


def _checked_url(url: str, variable: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(f"{variable} is no address: write it like https://api.example.com/v1.")
    return url
