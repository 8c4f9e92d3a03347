"""What a provider allows, and the pauses it asks for, shared by all that call it."""

from __future__ import annotations

import pytest

from knowledge_worker import Knowledge, KnowledgeCollection
from knowledge_worker.config import Settings
from knowledge_worker.embedding.tokens import estimated_tokens
from knowledge_worker.errors import ProviderBusyError
from knowledge_worker.limiters.memory import MemoryRateLimiter
from knowledge_worker.locks.memory import MemoryLocks
from knowledge_worker.queue.inline import InlineQueue
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from .conftest import Documents, run


class Passing(MemoryRateLimiter):
    """Time that a test lets pass, and nobody waits for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1_000_000.0
        super().__init__(lambda: self.seconds * 1000)
        monkeypatch.setattr("knowledge_worker.indexing.provider_gate.time", self)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Passing:
    return Passing(monkeypatch)


@pytest.fixture
def two_providers(database_url: str, provider: ScriptedProvider, passing: Passing, monkeypatch: pytest.MonkeyPatch):
    """Collections ``docs`` and ``more`` of one provider and ``other`` of another one, all on one server."""
    sources = {name: Documents(**{f"{name}{n}": f"{name} number {n}" for n in range(6)}) for name in NAMES}
    made: list[Knowledge] = []

    def make(**limits: int) -> Knowledge:
        entry = {"base_url": provider.base_url}
        settings = Settings(
            database_url=database_url, providers={"one": entry | limits, "two": entry}, embed_batch_size=2
        )
        declared = [
            KnowledgeCollection(name, model="two/m" if name == "other" else "one/m", sources=[source.source()])
            for name, source in sources.items()
        ]
        knowledge = Knowledge(declared, settings=settings, locks=MemoryLocks(), queue=InlineQueue(), limiter=passing)
        made.append(knowledge)
        knowledge.node_started(["sync", "embed"])
        return knowledge

    # The keeper sleeps on an event; here its time passes, too.
    monkeypatch.setattr("knowledge_worker.indexing.keeper.Keeper.wait", lambda _self, seconds: passing.sleep(seconds))
    yield make
    for knowledge in made:
        knowledge.close()


NAMES = ("docs", "more", "other")


def test_requests_of_all_collections_are_spaced(two_providers, passing: Passing, provider: ScriptedProvider) -> None:
    knowledge = two_providers(requests_per_minute=30)
    began = passing.seconds
    assert [run(knowledge, name) for name in ("docs", "more")] == ["ok", "ok"]
    assert len(provider.requests) == 6
    assert passing.seconds - began == pytest.approx(5 * 2, abs=0.5)
    before = passing.seconds
    assert run(knowledge, "other") == "ok"
    assert passing.seconds == before, "another provider's collection does not wait"


def test_tokens_are_spaced_and_a_call_carries_no_more_than_a_minute_allows(
    two_providers, passing: Passing, provider: ScriptedProvider
) -> None:
    one = estimated_tokens("docs number 0")
    knowledge = two_providers(tokens_per_minute=one)
    began = passing.seconds
    assert run(knowledge, "docs") == "ok"
    assert [len(request.texts) for request in provider.requests] == [1] * 6
    assert passing.seconds - began == pytest.approx(5 * 60, abs=0.5)


def test_a_pause_of_one_collection_holds_for_all_of_its_provider(
    two_providers, passing: Passing, provider: ScriptedProvider
) -> None:
    knowledge = two_providers()
    provider.script(Rule(status=429, headers={"Retry-After": "600"}, contains="docs"))
    run(knowledge, "docs")
    answered = run(knowledge, "more")
    assert answered.startswith('failed: Embedding provider "one" asked for a pause')
    assert len(provider.requests) == 1, "nothing was asked a second time"
    failed = knowledge.collection("more")
    assert failed.retry_at is not None
    assert (failed.retry_at - failed.updated_at).total_seconds() > 590
    assert run(knowledge, "other") == "ok"


def test_a_short_pause_is_waited_for_and_then_one_call_goes_first(
    two_providers, passing: Passing, provider: ScriptedProvider
) -> None:
    knowledge = two_providers()
    provider.script(Rule(status=429, contains="docs", times=1))
    run(knowledge, "docs")
    began = passing.seconds
    assert run(knowledge, "more") == "ok"
    assert passing.seconds - began == pytest.approx(5, abs=0.5)


def test_a_forced_sync_asks_in_a_pause_and_ends_it_when_answered(
    two_providers, passing: Passing, provider: ScriptedProvider
) -> None:
    knowledge = two_providers()
    provider.script(Rule(status=429, headers={"Retry-After": "600"}, times=1))
    run(knowledge, "docs")
    knowledge.sync("docs", force=True)
    assert run(knowledge, "docs") == "ok"
    assert run(knowledge, "more") == "ok"


def test_a_search_by_both_does_not_wait_for_a_pause(two_providers, provider: ScriptedProvider) -> None:
    knowledge = two_providers()
    assert run(knowledge, "docs") == "ok"
    provider.script(Rule(status=429, headers={"Retry-After": "30"}, times=1))
    assert knowledge.search("number 3", collections="docs").degraded
    asked = len(provider.requests)
    assert knowledge.search("number 4", collections="docs").degraded
    with pytest.raises(ProviderBusyError) as raised:
        knowledge.search("number 5", collections="docs", mode="semantic")
    assert 0 < (raised.value.retry_after_ms or 0) <= 30_000
    assert len(provider.requests) == asked


def test_who_waits_for_a_turn_stops_when_the_worker_does(
    two_providers, passing: Passing, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowledge = two_providers(requests_per_minute=2)

    def stopping(_self: object, seconds: float) -> None:
        passing.sleep(seconds)
        if provider.requests:
            knowledge.request_stop()

    monkeypatch.setattr("knowledge_worker.indexing.keeper.Keeper.wait", stopping)
    assert run(knowledge, "docs") == "cancelled"
    assert len(provider.requests) == 1
