"""What is counted of each operation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from knowledge_worker.embedding.measured import MeasuredModel
from knowledge_worker.errors import EmbeddingError, EmbeddingRejectedError, EmbeddingUnavailableError
from knowledge_worker.limiters.measured import MeasuredRateLimiter
from knowledge_worker.limiters.memory import MemoryRateLimiter
from knowledge_worker.ports import Embeddings, Operation
from knowledge_worker.telemetry.names import OTHERS
from knowledge_worker.telemetry.observers import Observers
from knowledge_worker.telemetry.prometheus import Metrics
from knowledge_worker.testing.limiter_contract import ask

WHO = {"provider": "paid", "model": "m", "purpose": "document"}


class Model:
    """Answers, or raises ``error``."""

    id, dimensions, max_inputs = "paid/m", 2, 16
    error: Exception | None = None

    def embed(self, texts: Sequence[str], *, purpose: str, timeout_ms: int) -> Embeddings:
        if self.error is not None:
            raise self.error
        return Embeddings(vectors=np.ones((len(texts), 2), dtype=np.float32), tokens=500_000, calls=2)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(version="1", prices={"paid": 0.02}, collections_max=2)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"knowledge_{name}", labels)


def test_calls_texts_tokens_and_cost_of_a_model(metrics: Metrics) -> None:
    model = MeasuredModel(Model(), Observers([metrics]))
    model.embed(["a", "b", "c"], purpose="document", timeout_ms=1)
    assert value(metrics, "embedding_calls_total", outcome="ok", **WHO) == 2
    assert value(metrics, "embedding_texts_total", **WHO) == 3
    assert value(metrics, "embedding_tokens_total", **WHO) == 500_000
    assert value(metrics, "embedding_cost_total", **WHO) == pytest.approx(0.01)
    assert value(metrics, "embedding_call_duration_seconds_count", **WHO) == 1


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (EmbeddingRejectedError("no"), "refused"),
        (EmbeddingUnavailableError("later", rate_limited=True), "rate_limited"),
        (EmbeddingUnavailableError("later"), "unavailable"),
        (RuntimeError("a model of somebody else"), "failed"),
    ],
)
def test_a_failing_call_is_counted_by_why_and_its_error_stays_what_it_is(
    metrics: Metrics, error: Exception, outcome: str
) -> None:
    model = Model()
    model.error = error
    with pytest.raises(type(error)) as raised:
        MeasuredModel(model, metrics).embed(["a"], purpose="document", timeout_ms=1)
    assert raised.value is error
    assert value(metrics, "embedding_calls_total", outcome=outcome, **WHO) == 1
    assert value(metrics, "embedding_tokens_total", **WHO) == 0


def test_a_text_that_was_never_sent_is_no_call(metrics: Metrics) -> None:
    model = Model()
    model.error = EmbeddingRejectedError("too long", calls=0)
    with pytest.raises(EmbeddingError):
        MeasuredModel(model, metrics).embed(["a"], purpose="document", timeout_ms=1)
    assert value(metrics, "embedding_calls_total", outcome="refused", **WHO) == 0


def test_a_pause_is_made_and_counted(metrics: Metrics) -> None:
    limiter = MeasuredRateLimiter(MemoryRateLimiter(lambda: 0), Observers([metrics]))
    limiter.pause("paid", ms=1000)
    assert ask(limiter, provider="paid").paused
    limiter.resume("paid")
    assert ask(limiter, provider="paid").granted
    assert value(metrics, "provider_pauses_total", provider="paid") == 1


def test_a_pass_is_counted_with_what_it_did(metrics: Metrics) -> None:
    with metrics.during(Operation.PASS, collection="docs", trigger="start") as seen:
        assert value(metrics, "passes_running") == 1
        seen.note(outcome="incomplete", added=3, deleted=1, embedded=7, reused=2)
    assert value(metrics, "passes_running") == 0
    assert value(metrics, "passes_total", collection="docs", trigger="start", outcome="incomplete") == 1
    assert value(metrics, "pass_documents_total", change="added") == 3
    assert value(metrics, "pass_documents_total", change="deleted") == 1
    assert value(metrics, "pass_passages_total", origin="embedded") == 7
    assert value(metrics, "pass_passages_total", origin="reused") == 2


def test_a_lost_lease_is_told_from_one_that_ran_out(metrics: Metrics) -> None:
    with metrics.during(Operation.PASS, collection="docs") as seen:
        seen.note(outcome="lease_lost")
    metrics.leases_expired(2)
    assert value(metrics, "lease_losses_total", reason="lost") == 1
    assert value(metrics, "lease_losses_total", reason="expired") == 2


def test_names_beyond_the_bound_share_one_label(metrics: Metrics) -> None:
    for name in ("a", "b", "c", "d", "a"):
        with metrics.during(Operation.PASS, collection=name, trigger="retry") as seen:
            seen.note(outcome="ok")
    assert value(metrics, "passes_total", collection="a", trigger="retry", outcome="ok") == 2
    assert value(metrics, "passes_total", collection=OTHERS, trigger="retry", outcome="ok") == 2
    assert value(metrics, "passes_total", collection="c", trigger="retry", outcome="ok") is None


def test_models_beyond_the_bound_share_one_label_too(metrics: Metrics) -> None:
    for model in ("a", "b", "c", "d"):
        with metrics.during(Operation.CALL, provider="paid", model=model, purpose="document", calls=1):
            pass
    assert value(metrics, "embedding_calls_total", **{**WHO, "model": "a"}, outcome="ok") == 1
    assert value(metrics, "embedding_calls_total", **{**WHO, "model": OTHERS}, outcome="ok") == 2


def test_an_operation_that_raises_is_counted_as_failed(metrics: Metrics) -> None:
    with pytest.raises(ZeroDivisionError), metrics.during(Operation.SEARCH, mode="hybrid"):
        _ = 1 / 0
    assert value(metrics, "searches_total", mode="hybrid", outcome="failed") == 1
