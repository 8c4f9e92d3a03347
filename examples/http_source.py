"""A paginated API that customers write to: untrusted, and a page that fails keeps what was indexed.

    HELP_CENTER_URL=https://help.example.com/api/articles \
        knowledge-worker up --app examples.http_source:knowledge

It answers ``{"articles": [{"slug", "title", "body", "url"}], "next": "<cursor>" or null}``.
Needs ``pip install httpx``.
"""

import os
from collections.abc import AsyncIterator

import httpx

from knowledge_worker import Knowledge, KnowledgeCollection, SourceContext, define_knowledge_source

URL = os.environ.get("HELP_CENTER_URL", "http://127.0.0.1:8080/articles")


@define_knowledge_source(kind="help-center", trusted=False)
async def help_center(context: SourceContext) -> AsyncIterator[dict[str, object]]:
    cursor: str | None = None
    number = 1
    async with httpx.AsyncClient(timeout=30) as client:
        while True:
            try:
                response = await client.get(URL, params={"limit": 100} | ({"after": cursor} if cursor else {}))
                response.raise_for_status()
                page = response.json()
                articles, following = page["articles"], page["next"]
            except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
                if number == 1:
                    raise  # nothing was read: the pass fails and comes back on the backoff
                context.incomplete(f"page {number}: {type(error).__name__}")  # index what came, delete nothing
                return
            for article in articles:
                try:
                    yield {
                        "id": article["slug"],
                        "title": article["title"],
                        "content": article["body"],
                        "source": article["url"],
                    }
                except KeyError as error:
                    context.on_error(f"an article of page {number} lacks {error}")
            if not following or following == cursor:
                return
            cursor, number = following, number + 1


knowledge = Knowledge(
    collections=[KnowledgeCollection("help-center", model="local/wordllama", sources=[help_center], resync_ms=600_000)]
)
