"""Settings: every option has a variable ``KNOWLEDGE_<NAME>``; read once, in one place."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from knowledge_worker.domain.limits import CONCURRENCY_MAX, COUNT_MAX, DURATION_MAX_MS, NAME_MAX_CHARS, Limits
from knowledge_worker.errors import ConfigurationError

PREFIX = "KNOWLEDGE_"
BODY_LIMIT_MAX = 1_073_741_824
"""A body is held in memory."""

Name: TypeAlias = Annotated[str, Field(pattern=r"\A[a-z0-9]+(-[a-z0-9]+)*\z", max_length=NAME_MAX_CHARS)]
"""Of a collection, and of a webhook, which stands in an address."""


class ProviderSettings(BaseModel):
    """An OpenAI-compatible server, named in ``KNOWLEDGE_PROVIDERS``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str = Field(description="Address of its API, such as http://localhost:11434/v1.")
    key_variable: str | None = Field(default=None, description="The environment variable that holds its key.")
    max_inputs: int = Field(default=2048, ge=1, le=COUNT_MAX, description="The most texts of one request.")
    max_request_tokens: int | None = Field(default=None, ge=1, description="The most tokens of one request.")
    max_input_tokens: int | None = Field(
        default=None, ge=1, description="The most tokens of one text; a passage over it fails its document."
    )
    requests_per_minute: int | None = Field(
        default=None, ge=1, le=COUNT_MAX, description="The most requests a minute, of all processes together."
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="The same for tokens, as estimated on the high side."
    )
    dimensions: int | None = Field(default=None, ge=1, description="Asked of the model where it can shorten vectors.")
    price_per_million_tokens: float | None = Field(
        default=None, ge=0, description="In your currency; `plan` then shows what a pass would cost."
    )


class TokenSettings(BaseModel):
    """A bearer token, one entry of ``KNOWLEDGE_TOKENS``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: SecretStr = Field(min_length=16)
    id: str = Field(min_length=1)
    permissions: tuple[str, ...]


class HookSettings(BaseModel):
    """An inbound webhook, one entry of ``KNOWLEDGE_HOOKS``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret: SecretStr = Field(min_length=16)
    collections: tuple[Name, ...] = Field(min_length=1)


class Settings(BaseSettings, Limits):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Everything an operator can set."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", populate_by_name=True)

    app: str | None = Field(default=None, description="Where the declarations are: module:attribute.")
    docs: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(), description="Folders declared as collections without Python; several are joined by ':'."
    )
    data_dir: Path = Field(default=Path(".knowledge"), description="Where the embedded servers keep their data.")
    database_url: SecretStr | None = Field(default=None, description="PostgreSQL 15+ with pgvector 0.8+.")
    redis_url: SecretStr | None = Field(default=None, description="Redis 6.2+ or Valkey.")
    host: str = Field(default="127.0.0.1", description="Where the API listens.")
    port: int = Field(default=8100, ge=0, le=65535, description="The API's port.")
    root_path: str = Field(default="", description="A path prefix in front of /knowledge, as a proxy mounts it.")
    flower_port: int = Field(default=5555, ge=0, le=65535, description="Flower's port.")
    flower_basic_auth: SecretStr | None = Field(default=None, description="user:password for Flower.")
    tokens: Annotated[tuple[TokenSettings, ...], NoDecode] = Field(
        default=(), description='Bearer tokens: a JSON list of {"value", "id", "permissions"}.'
    )
    hooks: Annotated[dict[Name, HookSettings], NoDecode] = Field(
        default_factory=dict,
        description='Webhooks that ask for syncs: a JSON object, name to {"secret", "collections"}.',
    )
    dev: bool = Field(default=False, description="Development on loopback: a token is made when none is set.")
    model: str | None = Field(default=None, description="The default model of managed collections and --docs.")
    providers: Annotated[dict[str, ProviderSettings], NoDecode] = Field(
        default_factory=dict, description="OpenAI-compatible servers: a JSON object, name to settings."
    )
    release: str | None = Field(default=None, description="Names the deployed version, such as a commit.")
    body_limit: int = Field(default=1_048_576, ge=1, le=BODY_LIMIT_MAX, description="The most bytes of a request body.")
    concurrency: int = Field(default=8, ge=1, le=CONCURRENCY_MAX, description="Tasks a worker process runs at once.")
    queues: Annotated[tuple[str, ...], NoDecode] = Field(
        default=("control", "sync", "embed"), description="The queues a worker consumes, joined by ','."
    )
    database_pool: int = Field(
        default=10, ge=1, le=CONCURRENCY_MAX, description="Database connections a process keeps at most."
    )
    metrics_port: int | None = Field(
        default=8101, ge=0, le=65535, description="Where a worker shows its metrics: the first free port from there on."
    )
    metrics_token: SecretStr | None = Field(
        default=None, min_length=16, description="Whoever reads metrics sends it as a bearer token."
    )
    metrics_collections: int = Field(
        default=200, ge=1, le=COUNT_MAX, description="Collections that metrics tell apart by name."
    )
    beat_old_ms: int = Field(
        default=60_000, ge=1000, le=DURATION_MAX_MS, description="No tick for so long, and beat counts as gone."
    )
    log_format: Literal["auto", "console", "json"] = Field(default="auto", description="auto: console on a terminal.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info")

    @field_validator("tokens", "providers", "hooks", mode="before")
    @classmethod
    def _parse_json(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("is no JSON") from None

    @field_validator("docs", mode="before")
    @classmethod
    def _split_paths(cls, value: Any) -> Any:
        return tuple(part for part in value.split(":") if part) if isinstance(value, str) else value

    @field_validator("queues", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("queues")
    @classmethod
    def _known_queues(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        known = {"control", "sync", "embed"}
        if not value or not set(value) <= known:
            raise ValueError(f"names a queue other than {', '.join(sorted(known))}")
        return value

    @field_validator("metrics_port", "metrics_token", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("root_path")
    @classmethod
    def _usable_prefix(cls, value: str) -> str:
        if not (value.isascii() and value.isprintable() and " " not in value):
            raise ValueError("holds something other than printable ASCII without spaces")
        return value

    @field_validator("flower_basic_auth")
    @classmethod
    def _user_and_password(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            user, _, password = value.get_secret_value().partition(":")
            if not user or not password:
                raise ValueError("is no user:password")
        return value

    @cached_property
    def limits(self) -> Limits:
        """The durations and bounds alone, for code that should see no more."""
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})


def load_settings(**overrides: Any) -> Settings:
    """Read the environment; ``overrides`` (options of the command line) win, None means not given.

    Raises:
        ConfigurationError: a value breaks a rule; names the variable, never its value.
    """
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        variable = PREFIX + str(first["loc"][0]).upper()
        where = ".".join(str(part) for part in first["loc"][1:])
        problem = str(first["msg"]).removeprefix("Value error, ")
        raise ConfigurationError(f"{variable}{f' ({where})' if where else ''}: {problem}") from None
