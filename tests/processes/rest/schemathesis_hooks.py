"""What schemathesis cannot read in the OpenAPI document: NDJSON, a webhook's signature, a rule between parameters."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import Any

import requests
import schemathesis
from hypothesis import strategies as st

_NDJSON = "application/x-ndjson"
_SIGNATURE = "X-Hub-Signature-256"
_text = st.text(max_size=20)
_document = st.fixed_dictionaries(
    {"id": _text, "content": _text}, optional={"title": _text, "metadata": st.dictionaries(_text, st.integers())}
)
_line = _document.map(json.dumps) | st.sampled_from(["", "{", "[]", '{"id": 1}', '{"id": "a", "more": 1}', "\x00"])

_lines = st.lists(_line, max_size=5).map("\n".join)


@schemathesis.serializer(_NDJSON)
def ndjson(_context: Any, value: Any) -> Any:
    """Lines as they are; what is no text is one line."""
    return value if isinstance(value, str | bytes) else json.dumps(value)


@schemathesis.hook
def before_generate_body(context: Any, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Send lines of documents, right and wrong, besides any text."""
    return st.one_of(_lines, strategy) if _operation(context) == "put_documents" else strategy


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Give a webhook the right signature where some text was made for one, so that more than 401 is seen."""
    if "HOOK_SECRET" in os.environ and _operation(context) == "receive_hook" and _SIGNATURE in (case.headers or {}):
        kwargs["auth"] = _sign


@schemathesis.hook
def filter_failure(context: Any, _failure: Any, case: Any, response: Any) -> bool:
    """A query string cannot say that a search by words has no ``minScore``, as the schema of the body does."""
    asked = case.query or {}
    lexical_with_cosine = asked.get("mode") == "lexical" and "minScore" in asked
    return not (_operation(context) == "search_by_link" and lexical_with_cosine and response.status_code == 400)


def _operation(context: Any) -> str:
    return context.operation.definition.raw["operationId"]


def _sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
    body = request.body or b""
    code = hmac.new(
        os.environ["HOOK_SECRET"].encode(), body.encode() if isinstance(body, str) else body, hashlib.sha256
    )
    request.headers[_SIGNATURE] = f"sha256={code.hexdigest()}"
    return request
