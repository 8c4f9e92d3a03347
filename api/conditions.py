"""Conditional requests (RFC 9110, section 13): a document's entity tag, ``If-Match`` and ``If-None-Match``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.requests import Request

from knowledge_worker.domain.document import Document
from knowledge_worker.errors import PreconditionFailedError

from .errors import SentFieldError
from .openapi import header_parameter

_TAG: Final = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_TAGS: Final = re.compile(rf"[ \t,]*{_TAG}(?:[ \t]*,[ \t,]*{_TAG})*[ \t,]*")
_ONE_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [{"const": "*"}, {"type": "string", "pattern": r'^(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*$'}]
}
_EXAMPLE: Final = '"5e7f0c1d2b3a4958-62d16f3f1a000"'

IF_MATCH: Final[dict[str, Any]] = header_parameter(
    "If-Match",
    "Write only when the document is still what this entity tag was given for, or, with `*`, when there is one. "
    "Several are separated by commas. Compared is the part before the `-`: content, title, source and metadata, so "
    "a document that has become ready meanwhile is still the same one. Weak tags never match.",
    schema=_SCHEMA,
    example=_EXAMPLE,
)
CREATE_ONLY: Final[dict[str, Any]] = header_parameter(
    "If-None-Match",
    "`*` writes only when there is no such document yet; entity tags, only when it is none of these.",
    schema=_SCHEMA,
    example="*",
)
IF_NONE_MATCH: Final[dict[str, Any]] = header_parameter(
    "If-None-Match",
    "Answer 304 without a body when the document still has one of these entity tags, or, with `*`, in any case.",
    schema=_SCHEMA,
    example=_EXAMPLE,
)
ETAG: Final[dict[str, Any]] = {
    "ETag": {
        "description": "The entity tag: what was stored, `-`, and when document or status last changed.",
        "schema": {"type": "string"},
        "example": _EXAMPLE,
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """The entity tags of one header, without their quotes.

    Attributes:
        anything: it was ``*``.
    """

    anything: bool
    strong: frozenset[str]
    weak: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.strong | self.weak


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a request makes its conditions; None where a header is absent."""

    if_match: Tags | None
    if_none_match: Tags | None

    def unchanged(self, document: Document) -> bool:
        """Whether a reader who sent ``If-None-Match`` has this document already."""
        asked = self.if_none_match
        return asked is not None and (asked.anything or _tag(document.version, document.updated_at) in asked.all)

    def check_put(self, document: Document | None) -> None:
        """Refuse to write over, or to create, what the caller did not mean.

        Raises:
            PreconditionFailedError: the stored document (None: there is none) does not fulfil a condition.
        """
        match, none_match = self.if_match, self.if_none_match
        if document is None:
            if match is not None:
                raise PreconditionFailedError("There is no such document, and If-Match asks for one.")
            return
        if match is not None and not (match.anything or _names_version(match.strong, document)):
            raise PreconditionFailedError("The document is not what If-Match names any more: read it again.")
        if none_match is not None and (none_match.anything or _names_version(none_match.all, document)):
            raise PreconditionFailedError("There is such a document already, and If-None-Match asks for none.")

    def check_delete(self, document: Document | None) -> None:
        """Refuse to delete what the caller did not mean; one that is absent is 404, whatever the conditions say.

        Raises:
            PreconditionFailedError: the stored document does not fulfil a condition.
        """
        if document is not None:
            self.check_put(document)


async def conditions(request: Request) -> Conditions:
    """Read the two headers; a dependency of routes.

    Raises:
        SentFieldError: a header is neither ``*`` nor a list of entity tags.
    """
    return Conditions(if_match=_tags(request, "If-Match"), if_none_match=_tags(request, "If-None-Match"))


def entity_tag(version: str, updated_at: datetime) -> str:
    """The value of ``ETag``: differs when content, title, source or metadata do, and after every change of status."""
    return f'"{_tag(version, updated_at)}"'


def _tag(version: str, updated_at: datetime) -> str:
    return f"{version}-{(updated_at - _EPOCH) // timedelta(microseconds=1):x}"


def _names_version(tags: frozenset[str], document: Document) -> bool:
    return document.version in {tag.partition("-")[0] for tag in tags}


def _tags(request: Request, header: str) -> Tags | None:
    lines = request.headers.getlist(header)
    if not lines:
        return None
    value = ", ".join(lines).strip(" \t")
    if value == "*":
        return Tags(anything=True, strong=frozenset(), weak=frozenset())
    if not _TAGS.fullmatch(value):
        raise SentFieldError(f'"{header}": neither * nor a list of entity tags such as "abc-1", "abc-2".', field=header)
    found = _ONE_TAG.findall(value)
    return Tags(
        anything=False,
        strong=frozenset(tag for weak, tag in found if not weak),
        weak=frozenset(tag for weak, tag in found if weak),
    )
