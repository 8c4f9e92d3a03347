"""A good collection beside a source that raises, one that hangs, a provider that fails, poison, and a large one."""

import os
import threading
from collections.abc import Iterator

from knowledge_worker import Knowledge, KnowledgeCollection, define_knowledge_source, folder

DOCS = os.environ["DOCS"]
MODEL = os.environ["MODEL"]


@define_knowledge_source(kind="raising")
def raising() -> Iterator[dict[str, str]]:
    yield {"id": "a", "content": "raising yields this"}
    raise ConnectionError("the source is away")


@define_knowledge_source(kind="hanging")
def hanging() -> Iterator[dict[str, str]]:
    yield {"id": "a", "content": "hanging yields this"}
    threading.Event().wait()


@define_knowledge_source(kind="poisonous")
def poisonous() -> Iterator[dict[str, str]]:
    yield {"id": "good", "content": "a text like others"}
    yield {"id": "bad", "content": "POISON"}


@define_knowledge_source(kind="large")
def large() -> Iterator[dict[str, str]]:
    for number in range(3000):
        yield {"id": f"d{number}", "content": f"large has number {number}"}


BAD = {
    "raising": KnowledgeCollection("raising", model=MODEL, sources=[raising]),
    "hanging": KnowledgeCollection("hanging", model=MODEL, sources=[hanging]),
    "failing": KnowledgeCollection("failing", model="other/m", sources=[large]),
    "poisonous": KnowledgeCollection("poisonous", model=MODEL, sources=[poisonous]),
    "large": KnowledgeCollection("large", model=MODEL, sources=[large]),
}
knowledge = Knowledge([*BAD.values(), KnowledgeCollection("docs", model=MODEL, sources=[folder(f"{DOCS}/docs")])])
