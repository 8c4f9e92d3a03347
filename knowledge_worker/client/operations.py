"""Every request of the REST API and how its answer is read; one function each, used by both clients."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel
from pydantic.alias_generators import to_snake

from knowledge_worker.client.exchange import OK, Operation, Repeat, Reply, Request
from knowledge_worker.client.models import (
    Collection,
    Document,
    DocumentPage,
    Pass,
    Plan,
    PutResult,
    Readiness,
)
from knowledge_worker.domain.document import checked_id
from knowledge_worker.domain.match import SearchResult
from knowledge_worker.errors import CollectionNotFoundError, DocumentNotFoundError, InvalidInputError

Model = TypeVar("Model", bound=BaseModel)

NDJSON: Final = "application/x-ndjson"
_COLLECTIONS: Final = "/knowledge/collections"
_JSON: Final = {"Content-Type": "application/json"}
_NOT_MODIFIED: Final = 304
_UNREADY: Final = 503
_utf8 = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def collections() -> Operation[list[Collection]]:
    """All collections."""
    return Operation(request=Request(method="GET", path=_COLLECTIONS), parse=lambda reply: _list(Collection, reply))


def collection(name: str) -> Operation[Collection]:
    """One collection."""
    return Operation(
        request=Request(method="GET", path=_path(name)), parse=lambda reply: _one(Collection, reply), collection=name
    )


def create_collection(
    name: str, *, title: str | None, description: str | None, language: str | None
) -> Operation[Collection]:
    """Create a managed collection; a second try would find the collection of the first, so there is none."""
    body = encode({"name": name, "title": title, "description": description, "language": language})
    return Operation(
        request=Request(method="POST", path=_COLLECTIONS, headers=_JSON, body=body),
        parse=lambda reply: _one(Collection, reply),
        repeat=Repeat.UNSENT,
        collection=name,
    )


def delete_collection(name: str) -> Operation[None]:
    """Delete a collection."""
    return Operation(
        request=Request(method="DELETE", path=_path(name)),
        parse=_nothing,
        gone=CollectionNotFoundError.code,
        collection=name,
    )


def sync(name: str, *, force: bool, confirm_deletes: bool) -> Operation[None]:
    """Ask for a pass."""
    asked = {"force": force, "confirmDeletes": confirm_deletes}
    params = {option: "true" for option, wanted in asked.items() if wanted}
    return Operation(
        request=Request(method="POST", path=_path(name, "sync"), params=params), parse=_nothing, collection=name
    )


def passes(name: str, *, limit: int) -> Operation[list[Pass]]:
    """The last passes."""
    return Operation(
        request=Request(method="GET", path=_path(name, "passes"), params={"limit": str(limit)}),
        parse=lambda reply: _list(Pass, reply),
        collection=name,
    )


def plan(name: str) -> Operation[Plan]:
    """What a pass would do."""
    return Operation(
        request=Request(method="GET", path=_path(name, "plan")), parse=lambda reply: _one(Plan, reply), collection=name
    )


def page(name: str, *, limit: int, offset: int, status: str | None) -> Operation[DocumentPage]:
    """A page of documents."""
    params = {"page[limit]": str(limit), "page[offset]": str(offset)}
    if status is not None:
        params["filter[status]"] = status
    return Operation(
        request=Request(method="GET", path=_path(name, "documents"), params=params), parse=_page, collection=name
    )


def document(name: str, document_id: str, *, if_none_match: str | None = None) -> Operation[Document | None]:
    """One document; None when it still has the entity tag ``if_none_match``."""
    headers = {} if if_none_match is None else {"If-None-Match": if_none_match}
    return Operation(
        request=Request(method="GET", path=_document_path(name, document_id), headers=headers),
        parse=_document,
        expected=OK if if_none_match is None else OK | {_NOT_MODIFIED},
        collection=name,
    )


def put(
    name: str,
    document_id: str,
    content: str,
    *,
    title: str | None,
    source: str | None,
    metadata: Mapping[str, object] | None,
    if_match: str | None,
    create_only: bool,
) -> Operation[PutResult]:
    """Put a document.

    With a condition a second try would be refused because of the first, and nobody could tell whose document is there:
    so it is only repeated when it never left.
    """
    headers = dict(_JSON)
    if if_match is not None:
        headers["If-Match"] = if_match
    if create_only:
        headers["If-None-Match"] = "*"
    body = encode({"content": content, "title": title, "source": source, "metadata": metadata})
    return Operation(
        request=Request(method="PUT", path=_document_path(name, document_id), headers=headers, body=body),
        parse=lambda reply: _put_result(document_id, reply),
        repeat=Repeat.UNSENT if if_match is not None or create_only else Repeat.ANY,
        collection=name,
    )


def delete(name: str, document_id: str, *, if_match: str | None) -> Operation[None]:
    """Delete a document; the condition protects a second try as it does the first."""
    headers = {} if if_match is None else {"If-Match": if_match}
    return Operation(
        request=Request(method="DELETE", path=_document_path(name, document_id), headers=headers),
        parse=_nothing,
        gone=DocumentNotFoundError.code,
        collection=name,
    )


def batch(name: str, body: bytes) -> Request:
    """Put many documents; their answer is read by :mod:`knowledge_worker.client.batch`."""
    path = _path(name, "documents", "batch")
    return Request(method="POST", path=path, headers={"Content-Type": NDJSON, "Accept": NDJSON}, body=body)


def search(
    query: str,
    *,
    collections: Iterable[str] | str | None,
    top_k: int,
    min_score: float | None,
    mode: str | None,
    filters: Mapping[str, object] | None,
    per_document: int | None,
    explain: bool,
) -> Operation[SearchResult]:
    """Find passages."""
    names = [collections] if isinstance(collections, str) else None if collections is None else list(collections)
    body = encode(
        {
            "query": query,
            "collections": names,
            "topK": top_k,
            "minScore": min_score,
            "mode": mode,
            "filters": None if filters is None else {_CAMEL.get(key, key): value for key, value in filters.items()},
            "perDocument": per_document,
            "explain": explain or None,
        }
    )
    return Operation(
        request=Request(method="POST", path="/knowledge/search", headers=_JSON, body=body),
        parse=lambda reply: SearchResult.model_validate(_in_snake_case(_object(reply))),
        collection=names[0] if names is not None and len(names) == 1 else "",
    )


_CAMEL: Final = {"id_prefix": "idPrefix"}


def ready() -> Operation[Readiness]:
    """Whether the service is ready; 503 is its way to say no, and no reason to ask again."""
    return Operation(
        request=Request(method="GET", path="/readyz", authorised=False), parse=_readiness, expected=OK | {_UNREADY}
    )


def encode(values: Mapping[str, object]) -> bytes:
    """A JSON object in UTF-8, without what is None.

    Raises:
        InvalidInputError: a value is nothing that JSON can hold; names the field.
    """
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return _utf8(given).encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can carry; the service replaces it
        return _ascii(given).encode()
    except (TypeError, ValueError, RecursionError):
        field = next((name for name, value in given.items() if not _is_json(value)), None)
        raise InvalidInputError(f"The {field or 'document'} is nothing that JSON can hold.", field=field) from None


def encoded_segment(text: str) -> str:
    """One segment of a path, percent-encoded once; HTTP libraries remove dots that stand alone, so these are too.

    >>> encoded_segment("a/b"), encoded_segment("%2F"), encoded_segment("..")
    ('a%2Fb', '%252F', '%2E%2E')
    """
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def _path(name: str, *parts: str) -> str:
    try:
        encoded = encoded_segment(name)
    except (TypeError, UnicodeEncodeError):
        raise InvalidInputError("A collection name is text.", field="name") from None
    return "/".join((_COLLECTIONS, encoded, *parts))


def _document_path(name: str, document_id: str) -> str:
    return _path(name, "documents", encoded_segment(checked_id(document_id)))


def _is_json(value: object) -> bool:
    try:
        _ascii(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _one(model: type[Model], reply: Reply) -> Model:
    return model.model_validate_json(reply.body)


def _list(model: type[Model], reply: Reply) -> list[Model]:
    return [model.model_validate(each) for each in _object(reply)["data"]]


def _in_snake_case(value: object) -> object:
    """The names of fields as Python has them; for answers whose every key is one of ours."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {to_snake(name): _in_snake_case(each) for name, each in fields.items()}
    if isinstance(value, list):
        return [_in_snake_case(each) for each in cast("list[object]", value)]
    return value


def _page(reply: Reply) -> DocumentPage:
    answer = _object(reply)
    return DocumentPage.model_validate({"documents": answer["data"], **answer["meta"]})


def _document(reply: Reply) -> Document | None:
    if reply.status == _NOT_MODIFIED:
        return None
    return Document.model_validate({**_object(reply), "etag": reply.headers.get("etag")})


def _put_result(document_id: str, reply: Reply) -> PutResult:
    facts = {"id": document_id, "accepted": reply.status == 202, "etag": reply.headers.get("etag")}
    return PutResult.model_validate({**_object(reply), **facts})


def _readiness(reply: Reply) -> Readiness:
    answer = _object(reply)
    if "status" not in answer:
        raise ValueError("no readiness")
    return Readiness(
        ready=answer["status"] == "ready",
        missing=tuple(answer.get("missing", ())),
        warnings=tuple(answer.get("warnings", ())),
    )


def _nothing(_reply: Reply) -> None:
    return None


def _object(reply: Reply) -> dict[str, Any]:
    value = json.loads(reply.body)
    if not isinstance(value, dict):
        raise TypeError("no JSON object")
    return cast("dict[str, Any]", value)
