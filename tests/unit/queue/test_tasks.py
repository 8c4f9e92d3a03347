"""Tasks translate: one call each, an outcome as result, an expected failure as a failed task."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from celery import Celery

from knowledge_worker.config import load_settings
from knowledge_worker.errors import CollectionNotFoundError, KnowledgeError, LeaseLostError, ServiceUnavailableError
from knowledge_worker.queue.celery import EMBED_TASK, SYNC_TASK, TICK_TASK, create_celery
from knowledge_worker.tasks import register_tasks
from knowledge_worker.tasks.work import PassFailed
from knowledge_worker.telemetry.prometheus import Metrics


class FakeKnowledge:
    def __init__(self) -> None:
        self.observer = Metrics(version="1", prices={}, collections_max=1)
        self.calls: list[tuple[str, ...]] = []
        self.outcome: str | None = "ok"
        self.error: Exception | None = None
        self.context: dict[str, Any] = {}

    def _called(self, *call: str) -> Any:
        self.calls.append(call)
        self.context = structlog.contextvars.get_contextvars()
        if self.error is not None:
            raise self.error
        return self.outcome

    def run_pass(self, name: str) -> str:
        return self._called("pass", name)

    def run_embed(self, name: str) -> str:
        return self._called("embed", name)

    def run_tick(self) -> str | None:
        return self._called("tick")


@pytest.fixture
def knowledge() -> FakeKnowledge:
    return FakeKnowledge()


@pytest.fixture
def celery(knowledge: FakeKnowledge) -> Celery:
    app = create_celery(load_settings(redis_url="redis://localhost:1/0"))
    register_tasks(app, knowledge)
    return app


def run(celery: Celery, task: str, *args: str) -> Any:
    return celery.tasks[task].apply(args=args)


def test_each_task_makes_its_one_call(celery: Celery, knowledge: FakeKnowledge) -> None:
    run(celery, SYNC_TASK, "handbook")
    run(celery, EMBED_TASK, "handbook")
    run(celery, TICK_TASK)
    assert knowledge.calls == [("pass", "handbook"), ("embed", "handbook"), ("tick",)]


def test_the_outcome_is_the_result(celery: Celery, knowledge: FakeKnowledge) -> None:
    knowledge.outcome = "busy"
    assert run(celery, SYNC_TASK, "handbook").result == "busy"
    knowledge.outcome = None
    assert run(celery, TICK_TASK).result == "ok"


def test_a_failed_pass_is_a_failed_task_with_its_one_line(celery: Celery, knowledge: FakeKnowledge) -> None:
    knowledge.outcome = "failed: The provider answered 503."
    answer = run(celery, SYNC_TASK, "handbook")
    assert answer.state == "FAILURE"
    assert repr(answer.result) == "PassFailed('The provider answered 503.')"


@pytest.mark.parametrize("error", [CollectionNotFoundError("handbook"), ServiceUnavailableError("PostgreSQL is away.")])
def test_an_expected_error_is_logged_and_fails_the_task(
    celery: Celery, knowledge: FakeKnowledge, error: KnowledgeError
) -> None:
    knowledge.error = error
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        answer = run(celery, EMBED_TASK, "handbook")
    assert answer.state == "FAILURE"
    assert isinstance(answer.result, PassFailed)
    assert [(line["event"], line["error"], line["collection"]) for line in lines] == [
        ("task_failed", error.message, "handbook")
    ]


def test_a_lost_lease_fails_nothing(celery: Celery, knowledge: FakeKnowledge) -> None:
    knowledge.error = LeaseLostError("fenced")
    answer = run(celery, SYNC_TASK, "handbook")
    assert (answer.state, answer.result) == ("SUCCESS", "lease lost")


def test_a_bug_fails_the_task_as_itself(celery: Celery, knowledge: FakeKnowledge) -> None:
    knowledge.error = ZeroDivisionError("bug")
    assert isinstance(run(celery, SYNC_TASK, "handbook").result, ZeroDivisionError)


def test_log_lines_within_carry_task_and_collection_and_none_after(celery: Celery, knowledge: FakeKnowledge) -> None:
    answer = run(celery, SYNC_TASK, "handbook")
    assert knowledge.context == {"task": SYNC_TASK, "task_id": answer.id, "collection": "handbook"}
    assert structlog.contextvars.get_contextvars() == {}


def test_expected_failures_are_declared_to_celery_so_it_prints_no_traceback(celery: Celery) -> None:
    assert all(celery.tasks[name].throws == (PassFailed,) for name in (SYNC_TASK, EMBED_TASK, TICK_TASK))


@pytest.mark.parametrize(
    ("outcome", "error", "counted"),
    [
        ("busy", None, "ok"),
        ("failed: no", None, "failed"),
        ("ok", LeaseLostError("fenced"), "left"),
        ("ok", ServiceUnavailableError("PostgreSQL is away."), "failed"),
    ],
)
def test_a_task_is_counted_by_how_it_ended(
    celery: Celery, knowledge: FakeKnowledge, outcome: str, error: KnowledgeError | None, counted: str
) -> None:
    knowledge.outcome, knowledge.error = outcome, error
    run(celery, SYNC_TASK, "handbook")
    labels = {"task": SYNC_TASK, "outcome": counted}
    assert knowledge.observer.registry.get_sample_value("knowledge_tasks_total", labels) == 1
