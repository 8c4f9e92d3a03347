"""The client for code that awaits; it asks and repeats as the one in :mod:`~knowledge_worker.client.blocking` does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, cast

import anyio
import httpx

from knowledge_worker.client import flows, operations
from knowledge_worker.client.connection import RETRY_FOR_S, TIMEOUT_S, Connection
from knowledge_worker.client.exchange import Lost, Operation, Outcome, Reply, Request, Result
from knowledge_worker.client.models import (
    BatchResult,
    Collection,
    Document,
    DocumentPage,
    Pass,
    Plan,
    PutResult,
    Readiness,
)
from knowledge_worker.client.waiting import wait_until_ready
from knowledge_worker.domain.document import DocumentInput
from knowledge_worker.domain.limits import LIST_DEFAULT, RESULTS_DEFAULT
from knowledge_worker.domain.match import SearchResult


class AsyncKnowledgeClient:
    """The asynchronous twin of :class:`KnowledgeClient`: same arguments, same methods, same errors.

    ``http`` is an ``httpx.AsyncClient``; ``documents`` and ``put_many`` answer asynchronous iterators. Runs on asyncio
    and trio.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        http: httpx.AsyncClient | None = None,
        timeout_s: float = TIMEOUT_S,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        self._connection = Connection(base_url, token=token, retry_for_s=retry_for_s)
        self._owned = http is None
        self._http = httpx.AsyncClient(timeout=timeout_s) if http is None else http

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.base_url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """See :meth:`KnowledgeClient.close`."""
        if self._owned:
            await self._http.aclose()

    async def ready(self) -> Readiness:
        """See :meth:`KnowledgeClient.ready`."""
        return await self._perform(operations.ready())

    async def collections(self) -> list[Collection]:
        """See :meth:`KnowledgeClient.collections`."""
        return await self._perform(operations.collections())

    async def collection(self, name: str) -> Collection:
        """See :meth:`KnowledgeClient.collection`."""
        return await self._perform(operations.collection(name))

    async def create_collection(
        self, name: str, *, title: str | None = None, description: str | None = None, language: str | None = None
    ) -> Collection:
        """See :meth:`KnowledgeClient.create_collection`."""
        return await self._perform(
            operations.create_collection(name, title=title, description=description, language=language)
        )

    async def delete_collection(self, name: str) -> None:
        """See :meth:`KnowledgeClient.delete_collection`."""
        await self._perform(operations.delete_collection(name))

    async def sync(self, name: str, *, force: bool = False, confirm_deletes: bool = False) -> None:
        """See :meth:`KnowledgeClient.sync`."""
        await self._perform(operations.sync(name, force=force, confirm_deletes=confirm_deletes))

    async def passes(self, name: str, *, limit: int = 20) -> list[Pass]:
        """See :meth:`KnowledgeClient.passes`."""
        return await self._perform(operations.passes(name, limit=limit))

    async def plan(self, name: str) -> Plan:
        """See :meth:`KnowledgeClient.plan`."""
        return await self._perform(operations.plan(name))

    def documents(self, name: str, *, status: str | None = None) -> AsyncIterator[Document]:
        """See :meth:`KnowledgeClient.documents`."""
        return self._iterate(flows.documents(name, status=status, patience=self._connection.patience))

    async def page(
        self, name: str, *, limit: int = LIST_DEFAULT, offset: int = 0, status: str | None = None
    ) -> DocumentPage:
        """See :meth:`KnowledgeClient.page`."""
        return await self._perform(operations.page(name, limit=limit, offset=offset, status=status))

    async def document(self, name: str, document_id: str) -> Document:
        """See :meth:`KnowledgeClient.document`."""
        return cast("Document", await self._perform(operations.document(name, document_id)))

    async def put(
        self,
        name: str,
        document_id: str,
        content: str,
        *,
        title: str | None = None,
        source: str | None = None,
        metadata: Mapping[str, object] | None = None,
        if_match: str | None = None,
        create_only: bool = False,
    ) -> PutResult:
        """See :meth:`KnowledgeClient.put`."""
        return await self._perform(
            operations.put(
                name,
                document_id,
                content,
                title=title,
                source=source,
                metadata=metadata,
                if_match=if_match,
                create_only=create_only,
            )
        )

    def put_many(
        self,
        name: str,
        documents: Iterable[DocumentInput | Mapping[str, object]] | AsyncIterable[DocumentInput | Mapping[str, object]],
    ) -> AsyncIterator[BatchResult]:
        """See :meth:`KnowledgeClient.put_many`; ``documents`` may be an asynchronous iterable as well."""
        return self._iterate(flows.put_many(name, patience=self._connection.patience), _given(documents))

    async def delete(self, name: str, document_id: str, *, if_match: str | None = None) -> None:
        """See :meth:`KnowledgeClient.delete`."""
        await self._perform(operations.delete(name, document_id, if_match=if_match))

    async def search(
        self,
        query: str,
        *,
        collections: Iterable[str] | str | None = None,
        top_k: int = RESULTS_DEFAULT,
        min_score: float | None = None,
        mode: str | None = None,
        filters: Mapping[str, object] | None = None,
        per_document: int | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """See :meth:`KnowledgeClient.search`."""
        return await self._perform(
            operations.search(
                query,
                collections=collections,
                top_k=top_k,
                min_score=min_score,
                mode=mode,
                filters=filters,
                per_document=per_document,
                explain=explain,
            )
        )

    async def wait_until_ready(
        self, name: str, document_id: str | None = None, *, timeout_s: float = 300.0, allow_stale: bool = True
    ) -> None:
        """See :meth:`KnowledgeClient.wait_until_ready`."""
        patience = self._connection.patience
        await self._run(
            wait_until_ready(name, document_id, timeout_s=timeout_s, allow_stale=allow_stale, patience=patience)
        )

    async def _perform(self, operation: Operation[Result]) -> Result:
        return await self._run(flows.perform(operation, self._connection.patience))

    async def _run(self, flow: flows.Flow[Result]) -> Result:
        answer: Any = None
        given = _given(())
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                return end.value
            answer = await self._do(step, given)

    async def _iterate(self, flow: flows.Flow[None], given: AsyncIterator[object] | None = None) -> AsyncGenerator[Any]:
        answer: Any = None
        given = given or _given(())
        while True:
            try:
                step = flow.send(answer)
            except StopIteration:
                return
            if isinstance(step, flows.Emit):
                yield step.value
                answer = None
            else:
                answer = await self._do(step, given)

    async def _do(self, step: flows.Step, given: AsyncIterator[object]) -> Any:
        match step:
            case flows.Send(request):
                return await self._send(request)
            case flows.Sleep(seconds):
                return await anyio.sleep(seconds)
            case flows.Pull():
                return await anext(given, flows.END)
            case flows.Emit():
                return None

    async def _send(self, request: Request) -> Outcome:
        built = self._http.build_request(**self._connection.build(request))
        try:
            response = await self._http.send(built, stream=True, **self._connection.auth(request))
        except httpx.RequestError as error:
            return Lost(error)
        body, broken = bytearray(), None
        try:
            async for part in response.aiter_bytes():
                body += part
        except httpx.RequestError as error:
            broken = error
        finally:
            await response.aclose()
        return Reply(status=response.status_code, headers=response.headers, body=bytes(body), broken=broken)


async def _given(documents: Iterable[object] | AsyncIterable[object]) -> AsyncGenerator[object]:
    if isinstance(documents, AsyncIterable):
        async for document in documents:
            yield document
    else:
        for document in documents:
            yield document
