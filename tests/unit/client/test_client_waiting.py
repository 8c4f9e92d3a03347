"""Waiting until something is ready."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from knowledge_worker.client import KnowledgeClient, waiting
from knowledge_worker.client.exchange import Reply
from knowledge_worker.client.flows import Patience, Sleep
from knowledge_worker.errors import (
    CollectionNotIndexedError,
    DocumentNotFoundError,
    EmbeddingError,
    ServiceUnavailableError,
)

from .conftest import Service, collection, document, error


def shown(status: str, tag: str = '"1"', **values: Any) -> httpx.Response:
    return httpx.Response(200, json=document(status=status, content="x", **values), headers={"ETag": tag})


def counted(status: str = "ready", *, pending: int = 0, failed: int = 0, **values: Any) -> httpx.Response:
    counts = {"total": 3, "pending": pending, "ready": 3 - pending - failed, "failed": failed}
    return httpx.Response(200, json=collection(status=status, documents=counts, **values))


def test_a_document_is_waited_for_without_fetching_it_again(client: KnowledgeClient, service: Service) -> None:
    service.script = [shown("pending"), httpx.Response(304), httpx.Response(304), shown("ready", '"2"')]
    client.wait_until_ready("notes", "a/b")
    assert [request.headers.get("If-None-Match") for request in service.requests] == [None, '"1"', '"1"', '"1"']
    assert set(service.paths) == {"/kb/knowledge/collections/notes/documents/a%2Fb"}


def test_a_document_that_fails_or_vanishes_ends_the_wait(client: KnowledgeClient, service: Service) -> None:
    service.script = [shown("pending"), shown("failed", error="The provider refuses it.")]
    with pytest.raises(EmbeddingError, match='"a" of "notes" failed: The provider refuses it'):
        client.wait_until_ready("notes", "a")
    service.script = [shown("pending"), error(404, "document_not_found")]
    with pytest.raises(DocumentNotFoundError):
        client.wait_until_ready("notes", "a")


def test_a_wait_ends_in_time(client: KnowledgeClient, service: Service) -> None:
    service.script = [shown("pending")]
    with pytest.raises(ServiceUnavailableError, match=r"still pending after 0\.02 s"):
        client.wait_until_ready("notes", "a", timeout_s=0.02)
    service.script = [counted(pending=2, error="No credit.", retryAt="2026-01-31T12:00:00Z")]
    with pytest.raises(ServiceUnavailableError, match=r"2 of 3 documents pending.*No credit"):
        client.wait_until_ready("notes", timeout_s=0)


def test_a_collection_is_ready_when_nothing_is_pending(client: KnowledgeClient, service: Service) -> None:
    service.script = [counted("pending"), counted(pending=2, error="x", running=True), counted(pending=1), counted()]
    client.wait_until_ready("notes")
    assert len(service.requests) == 4
    service.script = [counted("stale")]
    client.wait_until_ready("notes")
    assert len(service.requests) == 5


def test_a_stale_collection_can_be_waited_for(client: KnowledgeClient, service: Service) -> None:
    service.script = [counted("stale"), counted("stale", pending=3), counted("ready")]
    client.wait_until_ready("notes", allow_stale=False)
    assert len(service.requests) == 3


def test_failed_documents_fail_the_wait_for_their_collection(client: KnowledgeClient, service: Service) -> None:
    service.script = [counted(pending=1, failed=1), counted(failed=1)]
    with pytest.raises(EmbeddingError, match='1 of 3 documents of "notes" failed'):
        client.wait_until_ready("notes")


def test_a_collection_that_nothing_indexes_is_not_waited_for(client: KnowledgeClient, service: Service) -> None:
    service.script = [counted("orphaned", pending=1)]
    with pytest.raises(CollectionNotIndexedError, match="orphaned"):
        client.wait_until_ready("notes")
    service.script = [counted(pending=1, error="No such model.")]
    with pytest.raises(CollectionNotIndexedError, match="No such model"):
        client.wait_until_ready("notes")


def test_pauses_grow_up_to_a_longest() -> None:
    clock = [0.0]
    patience = Patience(address="http://x", retry_for_s=1, now=lambda: clock[0])
    flow = waiting.wait_until_ready("notes", None, timeout_s=20, allow_stale=True, patience=patience)
    reply = Reply(status=200, headers={}, body=counted(pending=1).content)
    pauses: list[float] = []
    step: Any = next(flow)
    with pytest.raises(ServiceUnavailableError, match="after 20 s"):  # noqa: PT012
        while True:
            if isinstance(step, Sleep):
                pauses.append(step.seconds)
                clock[0] += step.seconds
                step = flow.send(None)
            else:
                step = flow.send(reply)
    assert pauses[:3] == pytest.approx([0.1, 0.15, 0.225])
    assert max(pauses) == 2.0
    assert sum(pauses) == pytest.approx(20)
