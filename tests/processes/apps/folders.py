"""A folder for each of the named collections."""

import os

from knowledge_worker import Knowledge, KnowledgeCollection, folder

knowledge = Knowledge(
    collections=[
        KnowledgeCollection(name, model=os.environ["MODEL"], sources=[folder(os.environ["DOCS"] + "/" + name)])
        for name in os.environ["COLLECTIONS"].split(",")
    ]
)
