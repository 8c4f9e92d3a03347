"""When a failed pass comes back, and who asks for one (rules 20 to 26)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from knowledge_worker import ConfigurationError
from knowledge_worker.errors import CollectionNotIndexedError
from knowledge_worker.testing.provider import Rule, ScriptedProvider, quota_exhausted

from .conftest import Documents, Make, ManualClock, run, started, texts


def test_a_source_that_raises_fails_the_pass_and_keeps_everything(make: Make, clock: ManualClock) -> None:
    docs = Documents(a="apples")
    knowledge = started(make(docs.source()))
    run(knowledge)
    docs.error = OSError("connection refused")

    knowledge.sync("docs")
    assert run(knowledge).startswith("failed")

    assert texts(knowledge.search("fruit")) == ["apples"]
    collection = knowledge.collection("docs")
    assert "connection refused" in (collection.error or "")
    assert collection.failures == 1
    assert collection.retry_at is not None
    docs.error = None
    assert run(knowledge) == "nothing due"
    clock.advance(5)
    assert run(knowledge) == "ok"
    after = knowledge.collection("docs")
    assert (after.error, after.failures, after.retry_at) == (None, 0, None)


def test_attempts_come_after_5_10_20_up_to_300_seconds(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    docs = Documents(a="apples")
    processes = [started(make(docs.source())) for _ in range(3)]
    provider.script(Rule(status=429))

    def everyone_looks() -> int:
        before = len(provider.requests)
        for knowledge in processes:
            knowledge.run_tick()
            run(knowledge)
        return len(provider.requests) - before

    assert everyone_looks() == 1
    for wait in (5, 10, 20, 40, 80, 160, 300, 300, 300):
        clock.advance(wait - 0.1)
        assert everyone_looks() == 0
        clock.advance(0.1)
        assert everyone_looks() == 1


def test_retry_after_is_honoured(make: Make, provider: ScriptedProvider, clock: ManualClock) -> None:
    knowledge = started(make(Documents(a="apples").source()))
    provider.script(Rule(status=429, headers={"Retry-After": "120"}, times=1))
    run(knowledge)
    collection = knowledge.collection("docs")
    assert collection.retry_at is not None
    assert (collection.retry_at - clock.now).total_seconds() == 120


def test_exhausted_credit_says_so_and_waits_a_quarter_of_an_hour(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    knowledge = started(make(Documents(a="apples").source()))
    provider.script(quota_exhausted())
    run(knowledge)
    collection = knowledge.collection("docs")
    assert "credit" in (collection.error or "").lower()
    assert collection.retry_at is not None
    assert (collection.retry_at - clock.now).total_seconds() >= 900


def test_an_ordinary_sync_waits_for_the_backoff_and_force_does_not(
    make: Make, provider: ScriptedProvider, clock: ManualClock
) -> None:
    knowledge = started(make(Documents(a="apples").source()))
    provider.script(Rule(status=500))
    run(knowledge)
    clock.advance(1)

    knowledge.sync("docs")
    assert run(knowledge) == "nothing due"
    knowledge.sync("docs", force=True)
    assert run(knowledge).startswith("failed")
    assert run(knowledge) == "nothing due"
    assert len(provider.requests) == 2
    provider.clear_script()
    clock.advance(10)
    assert run(knowledge) == "ok"
    assert run(knowledge) == "nothing due"


def test_a_restarted_node_makes_one_attempt_at_once(make: Make, provider: ScriptedProvider, clock: ManualClock) -> None:
    docs = Documents(a="apples")
    first, second = started(make(docs.source())), started(make(docs.source()))
    provider.script(Rule(status=429))
    run(first)
    clock.advance(1)
    restarted = make(docs.source())
    clock.advance(4000)
    run(first)
    clock.advance(1)

    started(restarted)
    attempts = len(provider.requests)
    for knowledge in (first, second, restarted) * 2:
        knowledge.run_tick()
        run(knowledge)
    assert len(provider.requests) == attempts + 1


def test_requests_during_a_pass_make_exactly_one_more(make: Make, provider: ScriptedProvider) -> None:
    docs = Documents(a="apples")
    knowledge, other = started(make(docs.source())), make(docs.source())
    requested: list[int] = []
    docs.contents = _AskWhileRead(docs.contents, lambda: requested.extend(other.sync("docs") for _ in range(10)))
    assert run(knowledge) == "ok"
    assert len(requested) == 10
    assert docs.reads == 1
    assert run(other) == "ok"
    assert docs.reads == 2
    assert run(knowledge) == "nothing due"


class _AskWhileRead(dict):  # type: ignore[type-arg]
    def __init__(self, contents, ask):  # type: ignore[no-untyped-def]
        super().__init__(contents)
        self._ask = ask

    def items(self):  # type: ignore[no-untyped-def]
        ask, self._ask = self._ask, lambda: None
        ask()
        return super().items()


def test_a_second_worker_leaves_while_one_runs(make: Make, locks) -> None:  # type: ignore[no-untyped-def]
    docs = Documents(a="apples")
    knowledge, other = started(make(docs.source())), make(docs.source())
    outcomes: list[str] = []
    docs.contents = _AskWhileRead(docs.contents, lambda: outcomes.append(run(other)))
    run(knowledge)
    docs.contents = _AskWhileRead(docs.contents, lambda: (locks.forget(), outcomes.append(run(other))))
    knowledge.sync("docs")
    run(knowledge)
    assert outcomes == ["nothing due", "nothing due"] or outcomes == ["busy", "busy"]
    assert docs.reads == 2


def test_the_interval_counts_from_the_end_of_the_last_success(make: Make, clock: ManualClock) -> None:
    docs = Documents(a="apples")
    processes = [started(make(docs.source(), resync_ms=60_000)) for _ in range(3)]
    run(processes[0])
    for _ in range(60):
        for knowledge in processes:
            knowledge.run_tick()
            run(knowledge)
        clock.advance(1)
    assert docs.reads == 1
    for knowledge in processes:
        run(knowledge)
    assert docs.reads == 2
    assert processes[0].passes("docs")[0].trigger == "interval"


def test_a_configuration_error_is_stored_and_never_retried(make: Make, clock: ManualClock) -> None:
    docs = Documents(a="apples")
    knowledge = started(make(docs.source()))
    docs.error = ConfigurationError("no such table")
    assert run(knowledge).startswith("failed")
    for _ in range(10):
        clock.advance(600)
        knowledge.run_tick()
        assert run(knowledge) == "nothing due"
    assert docs.reads == 1
    with pytest.raises(CollectionNotIndexedError, match="no such table"):
        knowledge.sync("docs")
    docs.error = None
    started(make(docs.source()))
    assert run(knowledge) == "ok"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), RecursionError()])
def test_whatever_a_source_raises_is_a_failed_pass_at_once(make: Make, error: BaseException) -> None:
    docs = Documents(a="apples")
    knowledge = started(make(docs.source("faq")))
    docs.error = error  # type: ignore[assignment]
    outcomes: list[str] = []
    worker = threading.Thread(target=lambda: outcomes.append(run(knowledge)))
    worker.start()
    worker.join()
    assert outcomes[0].startswith("failed")
    collection = knowledge.collection("docs")
    assert (collection.running, collection.failures) == (None, 1)
    assert type(error).__name__ in (collection.error or "")
