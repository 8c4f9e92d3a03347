"""What the processes of a soak declare: a folder each, one with a provider of its own, one whose source has bad days.

The files ``fail`` and ``incomplete`` beside the folders say what the last one does at its end.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from knowledge_worker import Knowledge, KnowledgeCollection, define_knowledge_source, folder

ROOT = Path(os.environ["SOAK_DOCS"])


@define_knowledge_source(kind="moody")
def moody(context: Any) -> Iterator[dict[str, Any]]:
    for file in sorted((ROOT / "moody").glob("*.md")):
        try:
            content = file.read_text()
        except FileNotFoundError:
            continue  # deleted since the listing: not there any more
        if content:
            yield {"id": file.name, "content": content}
    if (ROOT / "fail").exists():
        raise ConnectionError("the source has a bad day")
    if (ROOT / "incomplete").exists():
        context.incomplete("a page could not be read")


knowledge = Knowledge(
    [
        KnowledgeCollection("plain", model="one/m", sources=[folder(ROOT / "plain")]),
        KnowledgeCollection("second", model="two/m", sources=[folder(ROOT / "second")]),
        KnowledgeCollection("moody", model="one/m", sources=[moody]),
    ]
)
