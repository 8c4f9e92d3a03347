"""A folder as one collection, read by a source of our own that notes each read in the file ``reads``.

What each task that a worker took ended with is noted in the file ``outcomes``. ``TITLE`` makes another declaration, and
``EXTRA`` declares a second collection.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from knowledge_worker import Knowledge, KnowledgeCollection, define_knowledge_source, folder
from knowledge_worker.service.passes import PassRunner

FOLDER = Path(os.environ["DOCS"]) / "docs"


def noted(task: str, method: Any) -> Any:
    def run(self: PassRunner, name: str) -> str:
        outcome = method(self, name)
        with FOLDER.with_name("outcomes").open("a") as outcomes:
            outcomes.write(f"{task}: {outcome}\n")
        return outcome

    return run


PassRunner.run = noted("sync", PassRunner.run)  # type: ignore[method-assign]
PassRunner.help = noted("embed", PassRunner.help)  # type: ignore[method-assign]


@define_knowledge_source(kind="counted")
def documents() -> Iterator[dict[str, str]]:
    with FOLDER.with_name("reads").open("a") as reads:
        reads.write(f"{os.getpid()}\n")
    for file in sorted(FOLDER.iterdir()):
        yield {"id": file.name, "content": file.read_text()}


collections = [
    KnowledgeCollection("docs", model=os.environ["MODEL"], title=os.environ.get("TITLE"), sources=[documents])
]
if "EXTRA" in os.environ:
    collections.append(
        KnowledgeCollection("extra", model=os.environ["MODEL"], sources=[folder(os.environ["DOCS"] + "/extra")])
    )
knowledge = Knowledge(collections)
