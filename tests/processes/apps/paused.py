"""A folder whose texts are read at once; the first process to read them then waits while the file PAUSE is there.

``NO_GUARD`` takes the guard away from every write: the control that shows what it is for.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from knowledge_worker import Knowledge, KnowledgeCollection, define_knowledge_source
from knowledge_worker.store.postgres import documents as _loads_all_of_the_store  # noqa: F401

FOLDER = Path(os.environ["DOCS"]) / "docs"
PAUSE = Path(os.environ["DOCS"]) / "pause"


@define_knowledge_source(kind="paused")
def documents() -> Iterator[dict[str, str]]:
    read = [{"id": file.name, "content": file.read_text()} for file in sorted(FOLDER.iterdir())]
    try:
        PAUSE.with_name("paused").open("x").close()
    except FileExistsError:
        pass
    else:
        while PAUSE.exists():
            time.sleep(0.02)
    yield from read


if "NO_GUARD" in os.environ:
    for name, module in list(sys.modules.items()):
        if name.startswith("knowledge_worker.store.postgres") and hasattr(module, "check_guard"):
            module.check_guard = lambda *_arguments, **_options: None  # type: ignore[attr-defined]

knowledge = Knowledge([KnowledgeCollection("docs", model=os.environ["MODEL"], sources=[documents])])
