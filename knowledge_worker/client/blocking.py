"""The client for code that blocks."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, cast

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

NO_DOCUMENTS: Iterator[object] = iter(())


class KnowledgeClient:
    """Talks to the REST API of knowledge-worker; safe to use from several threads.

    Requests that may be carried out twice are sent again when the connection fails or the service is busy (429, 502,
    503, 504): all but creating a collection and putting a document under a condition, which are sent again only when
    no connection was made. The waits grow, and follow ``Retry-After``.

    Args:
        base_url: of the service, with its path prefix if it has one, such as ``https://example.com/kb``.
        token: a bearer token.
        http: an ``httpx.Client`` of your own, for proxies, certificates and time limits; you close it.
        timeout_s: without ``http``: how long connecting, sending and each part of an answer may take.
        retry_for_s: no further try begins later than this after the first; 0 never tries again.

    Raises:
        ConfigurationError: the address or the token cannot be used.

    Every method raises the errors of :mod:`knowledge_worker.errors` that the service answers with, ``status`` set, and
    ServiceUnavailableError when it does not answer.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        http: httpx.Client | None = None,
        timeout_s: float = TIMEOUT_S,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        self._connection = Connection(base_url, token=token, retry_for_s=retry_for_s)
        self._owned = http is None
        self._http = httpx.Client(timeout=timeout_s) if http is None else http

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.base_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; an ``http`` that was given stays open."""
        if self._owned:
            self._http.close()

    def ready(self) -> Readiness:
        """Whether the service has everything it needs, and what is missing."""
        return self._perform(operations.ready())

    def collections(self) -> list[Collection]:
        """All collections, by name."""
        return self._perform(operations.collections())

    def collection(self, name: str) -> Collection:
        """One collection: its status, its last error, its counts.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        return self._perform(operations.collection(name))

    def create_collection(
        self, name: str, *, title: str | None = None, description: str | None = None, language: str | None = None
    ) -> Collection:
        """Create a managed collection.

        Raises:
            InvalidInputError: no name for a collection.
            CollectionDeclaredError, CollectionExistsError: the name is taken.
            NoDefaultModelError: the service has no default model.
        """
        return self._perform(
            operations.create_collection(name, title=title, description=description, language=language)
        )

    def delete_collection(self, name: str) -> None:
        """Delete a managed or an orphaned collection with everything in it.

        Raises:
            CollectionNotFoundError: no such collection.
            CollectionDeclaredError: code declares it.
        """
        self._perform(operations.delete_collection(name))

    def sync(self, name: str, *, force: bool = False, confirm_deletes: bool = False) -> None:
        """Ask for a pass; a managed collection is embedded with the default model, if that is another one by now.

        Args:
            force: do not wait for the backoff, and try failed documents again.
            confirm_deletes: allow the deletions that were held back.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        self._perform(operations.sync(name, force=force, confirm_deletes=confirm_deletes))

    def passes(self, name: str, *, limit: int = 20) -> list[Pass]:
        """The last passes, newest first.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        return self._perform(operations.passes(name, limit=limit))

    def plan(self, name: str) -> Plan:
        """What a pass would do now; the service reads the sources for it.

        Raises:
            CollectionNotFoundError: no such collection.
            SourceError: a source could not be read.
        """
        return self._perform(operations.plan(name))

    def documents(self, name: str, *, status: str | None = None) -> Iterator[Document]:
        """All documents by id, without content, fetched page by page.

        Pages are counted off: what is put or deleted meanwhile may shift others, which are then missed or met twice.

        Args:
            status: ``pending``, ``ready`` or ``failed``; None lists all.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        return self._iterate(flows.documents(name, status=status, patience=self._connection.patience))

    def page(self, name: str, *, limit: int = LIST_DEFAULT, offset: int = 0, status: str | None = None) -> DocumentPage:
        """Some documents by id, without content, and how many there are.

        Args:
            limit: at least 1; above 100 it is 100.
            status: as in :meth:`documents`.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        return self._perform(operations.page(name, limit=limit, offset=offset, status=status))

    def document(self, name: str, document_id: str) -> Document:
        """One document with its content.

        Raises:
            CollectionNotFoundError, DocumentNotFoundError: it is not there.
        """
        return cast("Document", self._perform(operations.document(name, document_id)))

    def put(
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
        """Put a document into a managed collection: a new one, or in place of the one with this id.

        Args:
            document_id: 1 to 255 characters, whichever they are.
            content: 1 to 1 048 576 characters.
            if_match: write only when the document is still the one with this ``etag``.
            create_only: write only when there is no such document.

        Raises:
            InvalidInputError: a value breaks a rule; ``field`` names it.
            CollectionNotFoundError: no such collection.
            CollectionNotManagedError: its documents come from sources.
            PreconditionFailedError: the document is not what was made a condition.
        """
        return self._perform(
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

    def put_many(self, name: str, documents: Iterable[DocumentInput | Mapping[str, object]]) -> Iterator[BatchResult]:
        """Put many documents in a few requests; memory does not grow with their number.

        A document is sent again only while nothing is known of it; each is put as :meth:`put` does without a condition.

        Args:
            documents: each a ``DocumentInput`` or a mapping with ``id``, ``content`` and perhaps ``title``, ``source``
                and ``metadata``. Nothing is sent before results are taken.

        Returns:
            What became of each, in their order; ``error`` says why one was refused, and the others are stored.

        Raises:
            CollectionNotFoundError: no such collection.
            CollectionNotManagedError: its documents come from sources.
        """
        return self._iterate(flows.put_many(name, patience=self._connection.patience), iter(documents))

    def delete(self, name: str, document_id: str, *, if_match: str | None = None) -> None:
        """Delete a document; it is gone from the next search.

        Args:
            if_match: delete only when the document is still the one with this ``etag``.

        Raises:
            CollectionNotFoundError, DocumentNotFoundError: it is not there.
            CollectionNotManagedError: its documents come from sources.
            PreconditionFailedError: the document is another one by now.
        """
        self._perform(operations.delete(name, document_id, if_match=if_match))

    def search(
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
        """Find the passages nearest in meaning.

        Args:
            query: 1 to 1000 characters.
            collections: names; None searches all that can be searched.
            top_k: 1 to 20 matches.
            min_score: cosine similarity that a match has at least; without a mode it makes the search semantic.
            mode: ``semantic``, ``lexical`` or ``hybrid`` (the default).
            filters: of the documents: ``{"metadata": {"team": "support", "year": {"gte": 2020}}, "id_prefix": "docs/",
                "source": "…"}``.
            per_document: matches of one document that come before those of others run out; the service says 3.
            explain: whether each match says its rank and score in each leg.

        Raises:
            InvalidInputError: a value breaks a rule; ``field`` names it.
            NotSearchableError: nothing that was asked for can be searched now.
            EmbeddingError: the query did not become a vector.
        """
        return self._perform(
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

    def wait_until_ready(
        self, name: str, document_id: str | None = None, *, timeout_s: float = 300.0, allow_stale: bool = True
    ) -> None:
        """Wait until a document's newest content is found, or until all of a collection is.

        Args:
            document_id: None waits for all documents of the collection.
            allow_stale: False also waits until a collection whose model changed is embedded anew; ask for that with
                :meth:`sync`.

        Raises:
            EmbeddingError: the document failed, or, when all are waited for, some did.
            CollectionNotIndexedError: nothing indexes the collection, so waiting cannot help.
            CollectionNotFoundError, DocumentNotFoundError: it is not there.
            ServiceUnavailableError: not ready within ``timeout_s``.
        """
        patience = self._connection.patience
        self._run(wait_until_ready(name, document_id, timeout_s=timeout_s, allow_stale=allow_stale, patience=patience))

    def _perform(self, operation: Operation[Result]) -> Result:
        return self._run(flows.perform(operation, self._connection.patience))

    def _run(self, flow: flows.Flow[Result]) -> Result:
        answer: Any = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                return end.value
            answer = self._do(step, NO_DOCUMENTS)

    def _iterate(self, flow: flows.Flow[None], given: Iterator[object] = NO_DOCUMENTS) -> Generator[Any]:
        answer: Any = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration:
                return
            if isinstance(step, flows.Emit):
                yield step.value
                answer = None
            else:
                answer = self._do(step, given)

    def _do(self, step: flows.Step, given: Iterator[object]) -> Any:
        match step:
            case flows.Send(request):
                return self._send(request)
            case flows.Sleep(seconds):
                return time.sleep(seconds)
            case flows.Pull():
                return next(given, flows.END)
            case flows.Emit():
                return None

    def _send(self, request: Request) -> Outcome:
        built = self._http.build_request(**self._connection.build(request))
        try:
            response = self._http.send(built, stream=True, **self._connection.auth(request))
        except httpx.RequestError as error:
            return Lost(error)
        body, broken = bytearray(), None
        try:
            for part in response.iter_bytes():
                body += part
        except httpx.RequestError as error:
            broken = error
        finally:
            response.close()
        return Reply(status=response.status_code, headers=response.headers, body=bytes(body), broken=broken)
