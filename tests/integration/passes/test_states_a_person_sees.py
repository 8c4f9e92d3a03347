"""After each kind of failure: what failed, since when, and what happens next, on the command line and over HTTP."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from click.testing import CliRunner
from starlette.testclient import TestClient

from knowledge_worker import ConfigurationError, Knowledge, KnowledgeCollection, create_app
from knowledge_worker.cli import cli
from knowledge_worker.config import Settings
from knowledge_worker.embedding.openai import OpenAIModel
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.queue.inline import InlineQueue
from knowledge_worker.testing.provider import Rule, ScriptedProvider, quota_exhausted

from .conftest import Documents

TOKEN = "a-token-for-tests-0123456789"


class Seen:
    """One collection as people see it: ``status``, ``passes`` and the API."""

    def __init__(self, knowledge: Knowledge, docs: Documents, provider: ScriptedProvider) -> None:
        self.knowledge = knowledge
        self.docs = docs
        self.provider = provider
        self.client = TestClient(create_app(knowledge), headers={"Authorization": f"Bearer {TOKEN}"})

    def api(self) -> dict[str, Any]:
        answer = self.client.get("/knowledge/collections/docs")
        assert answer.status_code == 200
        return answer.json()

    def command(self, *argv: str) -> list[str]:
        ended = CliRunner().invoke(cli, argv, catch_exceptions=False)
        assert ended.exit_code == 0, ended.output
        return [line.rstrip() for line in ended.stdout.splitlines()]

    def status(self) -> tuple[dict[str, str], list[str]]:
        """The row of the table by column, and the lines below it."""
        head, row, *below = self.command("status")
        starts = [found.start() for found in re.finditer(r"\S+( \S+)*", head)]
        names = [found.group() for found in re.finditer(r"\S+( \S+)*", head)]
        # Numbers end where their column's name ends; everything else begins where it begins.
        cells = [row[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        return dict(zip(names, cells, strict=True)), below

    def run(self, *, force: bool = False) -> str:
        if force:
            self.knowledge.sync("docs", force=True)
        return self.knowledge.run_pass("docs")


@pytest.fixture
def seen(database_url: str, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    docs = Documents(**{f"d{n}": f"text number {n}" for n in range(4)})
    model = OpenAIModel(provider="fake", model="m", base_url=provider.base_url, key="test-key")
    tokens = json.dumps([{"value": TOKEN, "id": "t", "permissions": ["knowledge:*"]}])
    knowledge = Knowledge(
        [KnowledgeCollection("docs", model=model, sources=[docs.source("crm")], max_delete_ratio=0.5)],
        settings=Settings(database_url=database_url, tokens=tokens, embed_timeout_ms=2000),
        locks=MemoryLocks(),
        queue=InlineQueue(),
    )
    monkeypatch.setenv("KNOWLEDGE_DATABASE_URL", database_url)
    monkeypatch.setenv("KNOWLEDGE_REDIS_URL", "redis://localhost:1")
    monkeypatch.setattr("knowledge_worker.loading.load_knowledge", lambda _settings: knowledge)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    knowledge.node_started(["sync"])
    yield Seen(knowledge, docs, provider)
    knowledge.close()
    model.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@dataclass(frozen=True)
class Case:
    """One kind of failure.

    Attributes:
        cause: makes the next passes fail.
        says: what the error says.
        waits_s: the least and the most seconds to the attempt after the first failure.
    """

    name: str
    cause: Callable[[Seen], None]
    says: str
    waits_s: tuple[float, float] = (3, 5)

    def __str__(self) -> str:
        return self.name


def source_raises(seen: Seen) -> None:
    seen.docs.error = OSError("connection refused")


def answers(rule: Rule) -> Callable[[Seen], None]:
    return lambda seen: seen.provider.script(rule)


FAILURES = [
    Case("source_raises", source_raises, "source crm: OSError: connection refused"),
    Case("429", answers(Rule(status=429)), 'Embedding provider "fake" answered 429'),
    Case(
        "retry_after",
        answers(Rule(status=429, headers={"Retry-After": "120"})),
        'Embedding provider "fake" answered 429',
        (115, 120),
    ),
    Case("401", answers(Rule(status=401)), 'Embedding provider "fake" answered 401, request req_test: it wants a key.'),
    Case("500", answers(Rule(status=500)), 'Embedding provider "fake" answered 500'),
    Case("hang", answers(Rule(hold=True)), 'Embedding provider "fake" did not answer within 2 s.'),
    Case("garbage", answers(Rule(body="nan")), "vectors that cannot be used: a component is not finite"),
    Case("quota", answers(quota_exhausted()), "credit is exhausted", (890, 900)),
    Case("refuses_all", answers(Rule(status=400)), "The provider refuses every text for the model fake/m"),
]


@pytest.mark.parametrize("case", FAILURES, ids=str)
def test_a_failure_says_what_since_when_and_what_next_until_it_is_over(seen: Seen, case: Case) -> None:
    case.cause(seen)
    assert seen.run().startswith("failed")

    view = seen.api()
    assert case.says in view["error"]
    since = datetime.fromisoformat(view["failingSince"])
    assert 0 <= (datetime.now(UTC) - since).total_seconds() < 100
    wait = round((datetime.fromisoformat(view["retryAt"]) - since).total_seconds())
    assert case.waits_s[0] <= wait <= case.waits_s[1]
    assert (view["failures"], view["status"], view["documents"]["failed"]) == (1, "pending", 0)
    row, below = seen.status()
    assert row["LAST PASS"].startswith("failed, ")
    assert re.fullmatch(r"\d+ (s|min) ago", row["FAILING SINCE"])
    assert re.fullmatch(r"in \d+ (s|min)|\d+ s ago", row["NEXT ATTEMPT"])
    assert case.says in row["ERROR"]
    assert below == []
    table_head, newest, last = seen.command("passes", "docs")
    assert case.says in newest
    assert re.fullmatch(r"Failing since: \d+ (s|min) ago\. Next attempt: (in \d+ (s|min)|\d+ (s|min) ago)\.", last), (
        table_head
    )

    # A second failure: it still says since when.
    assert seen.run(force=True).startswith("failed")
    view = seen.api()
    assert (view["failures"], datetime.fromisoformat(view["failingSince"])) == (2, since)
    assert seen.status()[0]["FAILING SINCE"].endswith(" ago (2 times)")

    # Mended: nothing of it is left.
    seen.provider.clear_script()
    seen.provider.release()
    seen.docs.error = None
    assert seen.run(force=True) == "ok"
    view = seen.api()
    assert not {"error", "failures", "failingSince", "retryAt"} & view.keys()
    assert "syncedAt" in view
    row, _ = seen.status()
    assert (row["FAILING SINCE"], row["NEXT ATTEMPT"], row["ERROR"]) == ("-", "-", "")


def test_a_configuration_error_waits_for_a_person_and_is_logged_once(seen: Seen) -> None:
    seen.docs.error = ConfigurationError("CRM_TOKEN is not set.")
    with structlog.testing.capture_logs() as lines:
        assert seen.run().startswith("failed")
        for _ in range(5):
            seen.knowledge.run_tick()
            assert seen.run() == "nothing due"
    assert [line["error"] for line in lines if line["event"] == "knowledge error"] == ["CRM_TOKEN is not set."]

    view = seen.api()
    assert (view["error"], view["failures"]) == ("CRM_TOKEN is not set.", 1)
    assert "failingSince" in view
    assert "retryAt" not in view
    row, _ = seen.status()
    assert (row["NEXT ATTEMPT"], row["ERROR"]) == ("when declared anew", "CRM_TOKEN is not set.")
    assert seen.command("passes", "docs")[-1].endswith("Next attempt: when declared anew.")
    asked = seen.client.post("/knowledge/collections/docs/sync")
    assert asked.status_code == 404
    assert "CRM_TOKEN is not set." in asked.json()["error"]["message"]


def test_a_worker_that_was_killed_is_said_once_its_lease_is_over(seen: Seen) -> None:
    store = seen.knowledge._parts.store
    found = store.collections.find("docs")
    assert found is not None
    assert store.leases.acquire(found.key, holder="gone:1:a", declaration=found.declaration) is not None
    row, _ = seen.status()
    assert (row["LAST PASS"], row["NEXT ATTEMPT"]) == ("running", "now")
    assert seen.api()["running"]

    with seen.knowledge._parts.store.database.transaction() as tx:
        tx.run("update collections set lease_until = '-infinity'")
    seen.knowledge.run_tick()

    says = "The worker that ran the pass stopped answering; its lease ran out."
    view = seen.api()
    assert (view["error"], view["failures"], view["running"]) == (says, 1, False)
    assert {"failingSince", "retryAt"} <= view.keys()
    row, _ = seen.status()
    assert row["LAST PASS"].startswith("failed, ")
    assert row["NEXT ATTEMPT"].startswith("in ")
    assert row["ERROR"] == says
    assert says in seen.command("passes", "docs")[1]


def test_an_incomplete_read_is_no_failure_and_says_what_is_missing(seen: Seen) -> None:
    seen.docs.incomplete = "page 2 of 3: 502"
    assert seen.run() == "incomplete"
    view = seen.api()
    assert view["incomplete"] == ["page 2 of 3: 502"]
    assert not {"error", "failures", "failingSince", "retryAt"} & view.keys()
    row, below = seen.status()
    assert row["LAST PASS"].startswith("incomplete, ")
    assert below == ["docs: incomplete: page 2 of 3: 502"]
    assert "Incomplete: page 2 of 3: 502" in seen.command("passes", "docs")


def test_deletions_that_are_held_back_say_how_to_allow_them(seen: Seen) -> None:
    seen.run()
    seen.docs.contents = {"d0": "text number 0"}
    seen.run(force=True)
    says = "3 of 4 documents are gone from the sources"
    allow = "knowledge-worker sync docs --confirm-deletes"
    view = seen.api()
    assert says in view["notice"]
    assert allow in view["notice"]
    _, below = seen.status()
    assert len(below) == 1
    assert says in below[0]
    assert allow in below[0]
    assert says in seen.command("passes", "docs")[-1]


def test_a_document_that_is_refused_is_named_with_its_reason_and_what_next(seen: Seen) -> None:
    seen.docs.contents["bad"] = "POISON pill"
    seen.provider.script(Rule(status=400, contains="POISON"))
    assert seen.run() == "ok"
    view = seen.api()
    assert view["documents"]["failed"] == 1
    assert "error" not in view
    (document,) = seen.client.get("/knowledge/collections/docs/documents?filter[status]=failed").json()["data"]
    assert document["id"] == "bad"
    assert document["error"].startswith("Passage 1 (lines 1-1) was refused")
    assert "updatedAt" in document
    row, below = seen.status()
    assert (row["FAILED"], row["ERROR"]) == ("1", "")
    assert below == ["docs: 1 document failed; why, says: knowledge-worker passes docs"]
    failed, again = seen.command("passes", "docs")[-2:]
    assert failed.startswith("Failed: bad: Passage 1 (lines 1-1) was refused")
    assert again == "They are tried again when they change, or now with: knowledge-worker sync docs --force"
