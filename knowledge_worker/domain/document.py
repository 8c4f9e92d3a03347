"""A document as a source or a caller hands it over, checked and made storable (rules 14, 42, 45)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias, cast

from pydantic import BaseModel, ConfigDict

from knowledge_worker.domain.limits import CONTENT_MAX_CHARS, ID_MAX_CHARS, TITLE_MAX_CHARS
from knowledge_worker.errors import InvalidInputError

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_INVISIBLE = re.compile("[\\s\u200b-\u200f\u2060-\u2064\ufeff\u00ad\u180e]*")
_METADATA_MAX_DEPTH = 64
INTEGER_MAX_BITS: Final = 13_288
"""4000 digits; Python writes and reads no more than 4300."""
_NO_METADATA_HASH = ""
# What is encoded was made here and holds no loop, so none is looked for.
_encode = json.JSONEncoder(sort_keys=True, check_circular=False).encode

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"


class DocumentStatus(StrEnum):
    """What became of a document's newest content."""

    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInput:
    """What a source yields or a caller puts; checked by :func:`checked_document`, not here."""

    id: str
    content: str
    title: str | None = None
    source: str | None = None
    metadata: Mapping[str, object] | None = None


class CheckedDocument(NamedTuple):
    """A document that can be stored: a tuple, since a pass makes one of every document, unchanged ones included.

    Attributes:
        hash: :func:`content_hash` of ``content``.
        details_hash: over title and source; a change of either makes the document pending again.
        warnings: what was replaced to make it storable.
    """

    id: str
    content: str
    title: str | None
    source: str | None
    metadata: dict[str, JSON]
    hash: str
    details_hash: str
    metadata_hash: str
    warnings: tuple[str, ...] = ()


class Document(BaseModel):
    """A stored document.

    Attributes:
        error: why it could not be embedded.
        warnings: what was replaced to make it storable.
        hash: :func:`content_hash` of the content.
        content: None where it was not asked for.
        version: of content, title, source and metadata; equal when all four are.
        updated_at: of the last change of any of these or of the status.
    """

    model_config = ConfigDict(frozen=True)

    collection: str
    id: str
    title: str | None
    source: str | None
    metadata: dict[str, object]
    status: DocumentStatus
    error: str | None
    warnings: tuple[str, ...]
    hash: str
    content: str | None
    version: str
    updated_at: datetime


class DocumentPage(BaseModel):
    """Some documents of a collection, by id and without content.

    Attributes:
        total: documents that match the filter, on all pages.
    """

    model_config = ConfigDict(frozen=True)

    documents: tuple[Document, ...]
    total: int
    limit: int
    offset: int


class PutResult(BaseModel):
    """What became of a document that was put.

    Attributes:
        status: after the put.
        accepted: it waits to be embedded because of this put; False when nothing has to be embedded for it.
        created: no document had this id.
        version: as in :class:`Document`.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    status: DocumentStatus
    accepted: bool
    created: bool
    version: str
    warnings: tuple[str, ...] = ()
    updated_at: datetime


def document_version(text_hash: str, details_hash: str, metadata_hash: str) -> str:
    """What tells whether content, title, source and metadata are the same: 16 hexadecimal digits."""
    return content_hash(f"{text_hash} {details_hash} {metadata_hash}")[:16]


class FailedDocument(BaseModel):
    """A document that could not be embedded, and why."""

    model_config = ConfigDict(frozen=True)

    id: str
    error: str


def content_hash(text: str) -> str:
    """SHA-256 of ``text`` in UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def is_blank(text: str) -> bool:
    """Whether ``text`` is empty, white space or invisible characters only (rule 29)."""
    return _INVISIBLE.fullmatch(text) is not None


def storable(text: str) -> str:
    """``text`` itself, or a copy with NUL and lone surrogates, which no PostgreSQL text can hold, as U+FFFD."""
    # Almost every text is fine, and to encode it says so ten times faster than the pattern does.
    if "\x00" not in text:
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _UNSTORABLE.sub("\ufffd", text)


def checked_id(value: object) -> str:
    """Check a document id.

    Raises:
        InvalidInputError: empty, over 255 characters, not text, or with NUL or a lone surrogate.
    """
    if not isinstance(value, str):
        raise InvalidInputError("A document id is text.", field="id")
    if not value:
        raise InvalidInputError("A document id is not empty.", field="id")
    if len(value) > ID_MAX_CHARS:
        raise InvalidInputError(f"A document id has at most {ID_MAX_CHARS} characters.", field="id")
    if storable(value) is not value:
        raise InvalidInputError("A document id has no NUL and no lone surrogate.", field="id")
    return value


def shown_id(value: object) -> str:
    """A document id, however wrong, in a form that any log can hold."""
    text = value if isinstance(value, str) else f"<{type(value).__name__}>"
    return text[:ID_MAX_CHARS].encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def checked_document(item: object, *, content_min_chars: int = 0) -> CheckedDocument:
    """Check one item of a source or one document of a caller and make it storable.

    Args:
        item: a :class:`DocumentInput` or a mapping with the same keys.
        content_min_chars: 0 for sources, 1 for managed documents.

    Returns:
        The document with its hashes; NUL and lone surrogates in its texts are U+FFFD, each with a warning.

    Raises:
        InvalidInputError: ``field`` says which part breaks a rule; the message never holds content.
    """
    values = _values(item)
    identifier = checked_id(values.get("id"))
    raw = values.get("content")
    if not isinstance(raw, str):
        raise InvalidInputError("The content is no text.", field="content")
    if len(raw) < content_min_chars:
        raise InvalidInputError("The content is empty.", field="content")
    if len(raw) > CONTENT_MAX_CHARS:
        raise InvalidInputError(
            f"The content has {len(raw)} characters; at most {CONTENT_MAX_CHARS} are allowed.", field="content"
        )
    warnings: list[str] = []
    content = _clean(raw, "content", warnings)
    title = _optional_text(values, "title", warnings)
    source = _optional_text(values, "source", warnings)
    metadata = _metadata(values.get("metadata"), warnings)
    return CheckedDocument(
        id=identifier,
        content=content,
        title=title,
        source=source,
        metadata=metadata,
        hash=content_hash(content),
        details_hash=content_hash(f"{title!r} {source!r}"),
        metadata_hash=content_hash(_encode([metadata, warnings])) if metadata or warnings else _NO_METADATA_HASH,
        warnings=tuple(warnings),
    )


def _values(item: object) -> Mapping[str, object]:
    if type(item) is dict:
        return cast("dict[str, object]", item)
    if isinstance(item, DocumentInput):
        return {
            "id": item.id,
            "content": item.content,
            "title": item.title,
            "source": item.source,
            "metadata": item.metadata,
        }
    if isinstance(item, Mapping):
        return cast("Mapping[str, object]", item)
    raise InvalidInputError(f"A document is a mapping or a DocumentInput, not {type(item).__name__}.")


def _clean(text: str, field: str, warnings: list[str]) -> str:
    cleaned = storable(text)
    if cleaned is not text:
        warnings.append(f"{field}: NUL or lone surrogates became U+FFFD")
    return cleaned


def _optional_text(values: Mapping[str, object], field: str, warnings: list[str]) -> str | None:
    value = values.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInputError(f"The {field} is no text.", field=field)
    if len(value) > TITLE_MAX_CHARS:
        warnings.append(f"{field}: cut to {TITLE_MAX_CHARS} characters")
        value = value[:TITLE_MAX_CHARS]
    return _clean(value, field, warnings)


def _metadata(value: object, warnings: list[str]) -> dict[str, JSON]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInputError("The metadata is no JSON object.", field="metadata")
    replaced: list[bool] = []
    plain = _plain_json(cast("Mapping[object, object]", value), replaced, depth=0)
    if replaced:
        warnings.append("metadata: NUL or lone surrogates became U+FFFD")
    return cast("dict[str, JSON]", plain)


def _plain_json(value: object, replaced: list[bool], *, depth: int) -> JSON:
    if depth > _METADATA_MAX_DEPTH:
        raise InvalidInputError(f"The metadata is nested deeper than {_METADATA_MAX_DEPTH} levels.", field="metadata")
    # Almost every value is of these types exactly, and a comparison of types is faster than a pattern.
    kind = type(value)
    if kind is str:
        return _storable_json(cast("str", value), replaced)
    if kind is bool or value is None:
        return cast("bool | None", value)
    match value:
        case int():
            if value.bit_length() > INTEGER_MAX_BITS:
                raise InvalidInputError("The metadata holds a number of more than 4000 digits.", field="metadata")
            return value
        case float():
            if not math.isfinite(value):
                raise InvalidInputError("The metadata holds a number that JSON cannot.", field="metadata")
            return value
        case str():
            return _storable_json(value, replaced)
        case Mapping():
            entries = cast("Mapping[object, object]", value)
            plain: dict[str, JSON] = {}
            for key, entry in entries.items():
                if not isinstance(key, str):
                    raise InvalidInputError("The metadata has a key that is no text.", field="metadata")
                plain[_storable_json(key, replaced)] = _plain_json(entry, replaced, depth=depth + 1)
            return plain
        case list() | tuple():
            parts = cast("list[object] | tuple[object, ...]", value)
            return [_plain_json(part, replaced, depth=depth + 1) for part in parts]
        case _:
            raise InvalidInputError(
                f"The metadata holds a {type(value).__name__}, which JSON cannot.", field="metadata"
            )


def _storable_json(text: str, replaced: list[bool]) -> str:
    cleaned = storable(text)
    if cleaned is not text:
        replaced.append(True)
    return cleaned
