"""``openai/<model>`` and every other server that speaks OpenAI's embeddings protocol."""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from knowledge_worker.domain.document import storable
from knowledge_worker.embedding import deadline
from knowledge_worker.embedding.answers import Answer, UnreadableError, read_answer
from knowledge_worker.embedding.checking import checked_vectors
from knowledge_worker.embedding.per_process import PerProcess
from knowledge_worker.embedding.retry_after import retry_after_ms
from knowledge_worker.embedding.tokens import over_limit, split_requests
from knowledge_worker.errors import EmbeddingError, EmbeddingRejectedError, EmbeddingUnavailableError
from knowledge_worker.ports import Embeddings, Purpose, Vectors

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI, Omit

_REFUSED = {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
_NO_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "insufficient_credits"}
_SHOWN_CODES = _NO_CREDIT | {
    "array_above_max_length", "authentication_error", "billing_not_active", "content_filter",
    "context_length_exceeded", "invalid_api_key", "invalid_request_error", "invalid_type", "invalid_value",
    "model_not_found", "not_found_error", "permission_error", "rate_limit_error", "rate_limit_exceeded", "requests",
    "server_error", "service_unavailable", "string_above_max_length", "tokens", "unsupported_parameter",
    "unsupported_value",
}  # fmt: skip
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class OpenAIModel:
    """An :class:`~knowledge_worker.ports.EmbeddingModel` behind HTTP; it makes no retries.

    Nothing of an error body but a known code reaches a message: providers repeat input, and some the key, there.
    Redirects are not followed: texts go to the address that was set and nowhere else.

    Args:
        provider: the name before the slash of its id.
        model: what the provider calls it.
        base_url: the address of the API, such as ``https://api.openai.com/v1``.
        key: sent as a bearer token; None sends none.
        key_variable: where the key came from, for the message of a 401.
        max_inputs: the most texts of one request; more are sent in several.
        max_request_tokens: the most tokens of one request, as ``embedding/tokens.py`` estimates them.
        max_input_tokens: the most tokens of one text, by the same estimate.
        dimensions: asked of the model and expected of its answers; None leaves both to the model.
        quota_retry_ms: the shortest wait after exhausted credit.
    """

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        base_url: str,
        key: str | None,
        key_variable: str | None = None,
        max_inputs: int = 2048,
        max_request_tokens: int | None = None,
        max_input_tokens: int | None = None,
        dimensions: int | None = None,
        quota_retry_ms: int = 900_000,
    ) -> None:
        self._provider = provider
        self._model = model
        self._base_url = base_url
        self._key = key
        self._key_variable = key_variable
        self._max_inputs = max_inputs
        self._max_request_tokens = max_request_tokens
        self._max_input_tokens = max_input_tokens
        self._dimensions = dimensions
        self._quota_retry_ms = quota_retry_ms
        # Nothing that the client hangs on knows the model: a model nobody uses any more closes its connections.
        self._client = PerProcess(partial(_make_client, base_url, key))
        weakref.finalize(self, _close_soon, self._client).atexit = False

    def __repr__(self) -> str:
        return f"OpenAIModel({self.id!r})"

    @property
    def id(self) -> str:
        """``<provider>/<model>``."""
        return f"{self._provider}/{self._model}"

    @property
    def dimensions(self) -> int | None:
        """The configured ones; None when only an answer tells."""
        return self._dimensions

    @property
    def max_inputs(self) -> int:
        """The most texts of one request."""
        return self._max_inputs

    def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout_ms: int) -> Embeddings:  # noqa: ARG002
        """Embed ``texts``, in as many requests as the provider's limits ask for.

        Args:
            texts: one or more, none of them blank.
            purpose: these models make no difference.
            timeout_ms: for all of it, from the first name look-up to the last byte.

        Raises:
            EmbeddingRejectedError: a text is over ``max_input_tokens``, or the provider refuses (400, 413, 422).
            EmbeddingUnavailableError: everything else; ``retry_after_ms`` is the provider's wish.
        """
        ends = time.monotonic() + timeout_ms / 1000
        clean = [storable(text) for text in texts]
        self._refuse_too_long(clean)
        vectors: list[Vectors] = []
        dimensions, tokens = self._dimensions, 0
        requests = split_requests(clean, max_inputs=self._max_inputs, max_tokens=self._max_request_tokens)
        for calls, request in enumerate(requests, start=1):
            answer = self._request(request, timeout_ms=timeout_ms, ends=ends, calls=calls)
            rows = checked_vectors(
                answer.rows,
                count=len(request),
                dimensions=dimensions,
                model=self.id,
                indexes=answer.indexes,
                calls=calls,
            )
            dimensions = rows.shape[1]
            tokens += answer.tokens
            vectors.append(rows)
        return Embeddings(vectors=np.concatenate(vectors), tokens=tokens, calls=len(requests))

    def close(self) -> None:
        """Close this process's connections; the next call opens new ones."""
        client = self._client.take()
        if client is not None:
            deadline.call(client.close, timeout_s=5.0)

    def _refuse_too_long(self, texts: Sequence[str]) -> None:
        limit = self._max_input_tokens
        if limit is None:
            return
        for text in texts:
            tokens = over_limit(text, limit)
            if tokens is not None:
                raise EmbeddingRejectedError(
                    f"A passage of {len(text)} characters is about {tokens} tokens; {self.id} reads at most {limit}.",
                    calls=0,
                )

    def _request(self, texts: list[str], *, timeout_ms: int, ends: float, calls: int) -> Answer:
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        problem: EmbeddingError
        try:
            left = ends - time.monotonic()
            if left <= 0:
                raise TimeoutError
            return read_answer(deadline.call(lambda: self._post(texts, timeout_s=left), timeout_s=left))
        except UnreadableError as error:
            problem = self._unavailable(f"sent an answer that cannot be used: {error}", calls)
        except (TimeoutError, APITimeoutError):
            problem = self._unavailable(f"did not answer within {timeout_ms / 1000:g} s", calls)
        except APIConnectionError as error:
            cause = type(error.__cause__ or error).__name__
            host = urlsplit(self._base_url).hostname
            what = f"cannot be reached at {host}" if "Connect" in cause else "broke its answer off"
            problem = self._unavailable(f"{what} ({cause})", calls)
        except APIStatusError as error:
            problem = self._status_problem(error, calls)
        except Exception as error:  # noqa: BLE001 - whatever a client raises is no answer, and its text may be content
            problem = self._unavailable(f"could not be asked ({type(error).__name__})", calls)
        # Raised here and not above: as its context the library's error would carry the body into every traceback.
        raise problem

    async def _post(self, texts: list[str], *, timeout_s: float) -> bytes:
        from openai import omit

        response = await self._client.get().embeddings.with_raw_response.create(
            input=texts,
            model=self._model,
            dimensions=omit if self._dimensions is None else self._dimensions,
            encoding_format="base64",
            extra_headers=self._left_out(),
            timeout=timeout_s,
        )
        return response.content

    def _left_out(self) -> dict[str, str | Omit]:
        from openai import omit

        # The client takes these from the environment; they are for OpenAI alone.
        names = [] if self._provider == "openai" else ["OpenAI-Organization", "OpenAI-Project"]
        return dict.fromkeys(names if self._key else [*names, "Authorization"], omit)

    def _status_problem(self, error: APIStatusError, calls: int) -> EmbeddingError:
        status = error.status_code
        code = next((code for code in (error.code, error.type) if code in _SHOWN_CODES), None)
        facts = f"{status}{f' {code}' if code else ''}"
        if error.request_id and _REQUEST_ID.fullmatch(error.request_id):
            facts += f", request {error.request_id}"
        wish = retry_after_ms(error.response.headers)
        if code in _NO_CREDIT or status == HTTPStatus.PAYMENT_REQUIRED:
            return self._unavailable(
                f"says that the credit is exhausted ({facts}): add credit or use another key",
                calls,
                retry_after=max(wish or 0, self._quota_retry_ms),
            )
        if status in _REFUSED:
            return EmbeddingRejectedError(
                f'Embedding provider "{self._provider}" refuses the text ({facts}).', calls=calls
            )
        hint = ""
        if status == HTTPStatus.UNAUTHORIZED:
            hint = f": check the key in {self._key_variable}" if self._key_variable else ": it wants a key"
        elif status == HTTPStatus.NOT_FOUND:
            hint = f': check the address and the name of the model "{self._model}"'
        elif status in range(300, 400):
            hint = ": it sends callers elsewhere, and texts go only to the address that is set; correct the address"
        limited = status == HTTPStatus.TOO_MANY_REQUESTS
        return self._unavailable(f"answered {facts}{hint}", calls, retry_after=wish, rate_limited=limited)

    def _unavailable(
        self, what: str, calls: int, *, retry_after: int | None = None, rate_limited: bool = False
    ) -> EmbeddingUnavailableError:
        return EmbeddingUnavailableError(
            f'Embedding provider "{self._provider}" {what}.',
            retry_after_ms=retry_after,
            calls=calls,
            rate_limited=rate_limited,
        )


def _make_client(base_url: str, key: str | None) -> AsyncOpenAI:
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    http_client = DefaultAsyncHttpxClient(follow_redirects=False)
    return AsyncOpenAI(api_key=key or "none", base_url=base_url, max_retries=0, http_client=http_client)


def _close_soon(client: PerProcess[AsyncOpenAI]) -> None:
    open_client = client.take()
    if open_client is not None:
        deadline.start(open_client.close)
