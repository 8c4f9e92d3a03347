"""What a scripted embedding provider answers: one :class:`Rule` for one kind of behaviour, good or bad."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from knowledge_worker.testing.hash_embedding import hash_vectors

Garbage = Literal[
    "not_json", "cut_off", "no_data", "error_object", "too_few", "too_many", "wrong_dimensions", "mixed_dimensions",
    "nan", "zeros", "bad_base64", "bad_index", "duplicate_index", "shuffled",
]  # fmt: skip
"""How an answer with status 200 is wrong; ``shuffled`` is right, in another order with the indexes to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One scripted behaviour. The first rule that matches a request and is not used up decides its answer.

    Attributes:
        times: requests it answers; None: every one.
        contains: only requests with a text that holds this.
        status: of the answer; other than 200 is an error body in OpenAI's form that echoes input and key, as some do.
        code: ``error.code`` of that body, such as ``insufficient_quota``.
        type: ``error.type`` of that body.
        headers: further headers of the answer, such as ``Retry-After``.
        body: the answer is 200 and wrong in this way.
        delay_s: seconds before the answer.
        hold: the answer waits until :meth:`ScriptedProvider.release`; without that it never comes.
        trickle_s: seconds between two bytes of the answer.
    """

    times: int | None = None
    contains: str | None = None
    status: int = 200
    code: str | None = None
    type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Garbage | None = None
    delay_s: float = 0.0
    hold: bool = False
    trickle_s: float = 0.0

    def matches(self, texts: Sequence[str]) -> bool:
        """Whether a request with these texts falls under the rule."""
        return self.contains is None or any(self.contains in text for text in texts)


def quota_exhausted(*, times: int | None = None) -> Rule:
    """The answer of an account without credit."""
    return Rule(status=429, code="insufficient_quota", type="insufficient_quota", times=times)


def error_body(rule: Rule, texts: Sequence[str], authorization: str) -> bytes:
    """An error in OpenAI's form; its message repeats what the caller sent, as careless providers do."""
    message = f"Request refused for {authorization!r} with input {list(texts)!r}"
    return json.dumps(
        {"error": {"message": message, "type": rule.type, "code": rule.code, "param": texts[0] if texts else None}}
    ).encode()


def answer_body(
    texts: Sequence[str], *, model: str, dimensions: int, as_base64: bool, garbage: Garbage | None
) -> bytes:
    """The answer to a request for ``texts``, right or wrong in the one way that is asked for."""
    if garbage == "not_json":
        return b"<html><body>502 Bad Gateway: " + "; ".join(texts).encode("utf-8", "replace") + b"</body></html>"
    if garbage == "error_object":
        return json.dumps({"error": {"message": f"cannot embed {texts!r}", "code": "overloaded"}}).encode()
    vectors = hash_vectors(texts, dimensions + 1 if garbage == "wrong_dimensions" else dimensions)
    if garbage == "nan":
        vectors[-1, 0] = float("nan")
    if garbage == "zeros":
        vectors[-1] = 0.0
    rows = list(vectors)
    if garbage == "mixed_dimensions":
        rows[-1] = rows[-1][:-1]
    data: list[dict[str, object]] = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode() if as_base64 else row.tolist(),
        }
        for index, row in enumerate(rows)
    ]
    match garbage:
        case "no_data":
            data = []
        case "too_few":
            data = data[:-1]
        case "too_many":
            data.append({**data[-1], "index": len(data)})
        case "bad_base64":
            data[-1]["embedding"] = "!!! no base64 !!!"
        case "bad_index":
            data[-1]["index"] = "last"
        case "duplicate_index":
            data[-1]["index"] = 0
        case "shuffled":
            data = data[::-2] + data[-2::-2]
        case _:
            pass
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json.dumps({"object": "list", "data": data, "model": model, "usage": usage}).encode()
