"""Many documents in one request, as NDJSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse

from knowledge_worker.errors import InvalidInputError

from ..bulk import GROUP_BYTES, GROUP_LINES, MEDIA_TYPE, BulkDocument, BulkWrite
from ..document_views import BulkResultView, BulkSummaryView
from ..ndjson import Line, LineCutter
from ..openapi import ndjson_body, ndjson_response, problems
from ..parameters import NameInPath, existing_name

if TYPE_CHECKING:
    from knowledge_worker.knowledge import Knowledge

_SENT: Final = """{"id": "setup.md", "content": "Install the package, then run it.", "title": "Setting up"}
{"id": "faq.md", "content": "Why? Because."}
{"id": "", "content": "Nobody finds this."}
"""
_ANSWERED: Final = """{"line":1,"id":"setup.md","code":202,"status":"pending"}
{"line":2,"id":"faq.md","code":200,"status":"ready"}
{"line":3,"code":400,"error":{"code":"invalid_input","message":"A document id is not empty.","field":"id"}}
{"documents":3,"accepted":1,"unchanged":1,"failed":1}
"""


def batch_router(knowledge: Knowledge) -> APIRouter:
    """``POST /collections/:name/documents/batch``; with other methods that path is the document ``batch``."""
    router = APIRouter(prefix="/collections/{name:segment}/documents", tags=["documents"])

    @router.post(
        "/batch",
        response_class=StreamingResponse,
        responses={
            **problems(404, 409),
            200: ndjson_response(
                "One line of result a document, in their order, then a summary.",
                lines=(BulkResultView, BulkSummaryView),
                example=_ANSWERED,
            ),
        },
        openapi_extra=ndjson_body(
            "One document a line. Blank lines are skipped. A line is as long as a body may be; none is needed.",
            line=BulkDocument,
            example=_SENT,
        ),
    )
    async def put_documents(request: Request, name: NameInPath) -> StreamingResponse:
        """Put many documents into a managed collection, each by the rules of a PUT.

        The body is stored as it comes, in bounded memory, and its lines are independent of each other: one that is
        refused has its own error in the answer, and the others are stored. The answer begins when the body has ended;
        when a client leaves before, what was stored stays.
        """
        known = existing_name(name)
        # An absent collection, or one that takes no documents, is said before anything is read.
        await run_in_threadpool(knowledge.put_documents, known, ())
        limit: int = request.app.state.body_limit
        write = BulkWrite(knowledge, known, line_max_bytes=limit)
        try:
            await _receive(request, write, LineCutter(limit))
        except BaseException:
            write.close()
            raise
        length = write.finish()
        return StreamingResponse(write.answer(), media_type=MEDIA_TYPE, headers={"Content-Length": str(length)})

    return router


async def _receive(request: Request, write: BulkWrite, cutter: LineCutter) -> None:
    group: list[Line] = []
    size = 0

    async def add(line: Line) -> None:
        nonlocal group, size
        group.append(line)
        size += len(line.text or b"")
        if len(group) >= GROUP_LINES or size >= GROUP_BYTES:
            full, group, size = group, [], 0
            await run_in_threadpool(write.store, full)

    try:
        async for part in request.stream():
            for line in cutter.feed(part):
                await add(line)
    except ClientDisconnect:
        raise InvalidInputError("The body ended early.") from None
    for line in cutter.end():
        await add(line)
    await run_in_threadpool(write.store, group)
