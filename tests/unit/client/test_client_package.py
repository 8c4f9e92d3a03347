"""What the package promises as a whole."""

from __future__ import annotations

import inspect
import subprocess
import sys

from knowledge_worker.client import AsyncKnowledgeClient, KnowledgeClient


def public(kind: type) -> dict[str, list[tuple[str, object, object]]]:
    methods = {name: value for name, value in vars(kind).items() if not name.startswith("_") or name == "__init__"}
    return {
        name: [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]
        for name, method in methods.items()
    }


def test_the_two_clients_have_the_same_methods_with_the_same_arguments() -> None:
    assert public(KnowledgeClient) == public(AsyncKnowledgeClient)
    assert len(public(KnowledgeClient)) > 15


def test_only_iterators_of_the_asynchronous_client_are_not_awaited() -> None:
    methods = {name: method for name, method in vars(AsyncKnowledgeClient).items() if not name.startswith("_")}
    assert {name for name, method in methods.items() if not inspect.iscoroutinefunction(method)} == {
        "documents",
        "put_many",
    }


def test_importing_it_imports_nothing_of_the_service() -> None:
    heavy = ("fastapi", "starlette", "celery", "sqlalchemy", "psycopg", "redis", "openai", "structlog", "alembic")
    code = f"import sys, knowledge_worker.client; print([name for name in {heavy!r} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
