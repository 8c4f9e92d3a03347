"""The documentation in a Git repository, read again when its branch moves.

    DOCS_REPOSITORY=https://github.com/pallets/click.git DOCS_PATH=docs \
        knowledge-worker up --app examples.git_source:knowledge

For a private repository the address may carry a token (``https://TOKEN@host/team/docs.git``): it reaches git through
its environment, and no log, error or record shows it. ``git@host:team/docs.git`` uses the key of your SSH agent.
A step of the repository's CI that calls ``POST /knowledge/collections/docs/sync`` has it read at once.
"""

import os

from knowledge_worker import Knowledge, KnowledgeCollection, git

repository = git(
    os.environ.get("DOCS_REPOSITORY", "."),
    ref=os.environ.get("DOCS_REF", "HEAD"),
    path=os.environ.get("DOCS_PATH", ""),
    extensions=[".md", ".rst", ".txt"],
    trusted=False,  # whoever may push decides what it says
)

knowledge = Knowledge(
    collections=[KnowledgeCollection("docs", model="local/wordllama", sources=[repository], resync_ms=300_000)]
)
