"""Every counter of a process, and the text that Prometheus reads. Names here are public: docs/how-to/monitor.md.

Each :class:`Metrics` has a registry of its own, so several :class:`~knowledge_worker.knowledge.Knowledge` in one
process do not share one.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    Metric,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.registry import Collector

from knowledge_worker.ports import Fact, Observation, Operation
from knowledge_worker.telemetry.names import BoundedNames

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_ANSWERS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_WORK_S: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
_STEPS: Final = {Operation.READ: "read", Operation.EMBED: "embed", Operation.STORE: "store"}
_CHANGES: Final = ("added", "changed", "unchanged", "deleted", "skipped", "failed")
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_OTHER: Final = "other"


class Metrics:
    """An :class:`~knowledge_worker.ports.Observer` that counts.

    Args:
        version: of this program.
        prices: by provider, of a million tokens.
        collections_max: how many collections, and how many models, are counted by name.
    """

    def __init__(self, *, version: str, prices: Mapping[str, float], collections_max: int) -> None:
        self.registry = registry = CollectorRegistry()
        self._prices = prices
        self._collections = BoundedNames(collections_max)
        self._models = BoundedNames(collections_max)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        Info("knowledge_build", "The version that runs.", registry=registry).info({"version": version})

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"knowledge_{name}", what, labels, registry=registry)

        def histogram(name: str, what: str, *labels: str, buckets: tuple[float, ...] = _ANSWERS_S) -> Histogram:
            return Histogram(f"knowledge_{name}_seconds", what, labels, registry=registry, buckets=buckets)

        self._passes = counter("passes_total", "Passes that this process ended.", "collection", "trigger", "outcome")
        self._passes_running = Gauge("knowledge_passes_running", "Passes of this process now.", registry=registry)
        self._pass_s = histogram("pass_duration", "Of passes, from lease to end.", "outcome", buckets=_WORK_S)
        self._step_s = histogram("pass_step_duration", "Of the steps of passes.", "step", buckets=_WORK_S)
        self._documents = counter("pass_documents_total", "Documents, by what passes did with them.", "change")
        self._passages = counter("pass_passages_total", "Passages stored, embedded anew or reused.", "origin")
        self._lease_losses = counter(
            "lease_losses_total", "Leases lost while at work (lost), or found after their holder died.", "reason"
        )
        self._tasks = counter("tasks_total", "Celery tasks that this process ended.", "task", "outcome")
        who = ("provider", "model", "purpose")
        self._calls = counter("embedding_calls_total", "Requests to embedding models.", *who, "outcome")
        self._call_s = histogram("embedding_call_duration", "Of calls of embedding models.", *who)
        self._texts = counter("embedding_texts_total", "Texts that became vectors.", *who)
        self._tokens = counter("embedding_tokens_total", "Tokens that providers counted.", *who)
        self._cost = counter("embedding_cost_total", "Of these tokens at the set price, in its currency.", *who)
        self._pauses = counter("provider_pauses_total", "Pauses that providers asked this process for.", "provider")
        self._searches = counter("searches_total", "Searches.", "mode", "outcome")
        self._search_s = histogram("search_duration", "Of searches.", "mode")
        self._requests = counter("http_requests_total", "HTTP requests.", "method", "route", "status")
        self._request_s = histogram("http_request_duration", "Of HTTP requests.", "method", "route")
        self._lease_losses.labels("lost")
        self._lease_losses.labels("expired")

    @contextmanager
    def during(
        self,
        operation: Operation,
        *,
        carrier: Mapping[str, str] | None = None,  # noqa: ARG002 - metrics follow nothing from process to process
        **facts: Fact,
    ) -> Generator[Observation]:
        """Take the time of an operation and count it when it ends."""
        noted = _Noted(facts)
        running = self._passes_running if operation is Operation.PASS else None
        if running is not None:
            running.inc()
        began = time.perf_counter()
        try:
            yield noted
        except BaseException:
            noted.facts.setdefault("outcome", "failed")
            raise
        finally:
            if running is not None:
                running.dec()
            self._ended(operation, noted, time.perf_counter() - began)

    def leases_expired(self, count: int) -> None:
        """Count them."""
        self._lease_losses.labels("expired").inc(count)

    def provider_paused(self, provider: str) -> None:
        """Count it."""
        self._pauses.labels(provider).inc()

    def carrier(self) -> dict[str, str]:
        """Nothing: a counter does not follow a message."""
        return {}

    def exposition(self, *more: Collector) -> bytes:
        """Everything as text, of the type :data:`CONTENT_TYPE`, and what ``more`` collect."""
        shown = CollectorRegistry()
        for collector in (_WithoutCreated(self.registry), *more):
            shown.register(collector)
        return generate_latest(shown)

    def _ended(self, operation: Operation, noted: _Noted, seconds: float) -> None:
        match operation:
            case Operation.REQUEST:
                method = noted.word("method", _OTHER)
                method = method if method in _METHODS else _OTHER
                route = noted.word("route", _OTHER)
                self._requests.labels(method, route, noted.word("status", "500")).inc()
                self._request_s.labels(method, route).observe(seconds)
            case Operation.TASK:
                self._tasks.labels(noted.word("task"), noted.word("outcome", "ok")).inc()
            case Operation.PASS:
                self._pass_ended(noted, seconds)
            case Operation.READ | Operation.EMBED | Operation.STORE:
                self._step_s.labels(_STEPS[operation]).observe(seconds)
            case Operation.HELP:
                pass
            case Operation.CALL:
                self._call_ended(noted, seconds)
            case Operation.SEARCH:
                self._searches.labels(noted.word("mode"), noted.word("outcome", "ok")).inc()
                self._search_s.labels(noted.word("mode")).observe(seconds)

    def _pass_ended(self, noted: _Noted, seconds: float) -> None:
        outcome = noted.word("outcome", "ok")
        collection = self._collections.label(noted.word("collection"))
        self._passes.labels(collection, noted.word("trigger"), outcome).inc()
        self._pass_s.labels(outcome).observe(seconds)
        if outcome == "lease_lost":
            self._lease_losses.labels("lost").inc()
        for change in _CHANGES:
            self._documents.labels(change).inc(noted.number(change))
        for origin in ("embedded", "reused"):
            self._passages.labels(origin).inc(noted.number(origin))

    def _call_ended(self, noted: _Noted, seconds: float) -> None:
        provider = noted.word("provider")
        who = (provider, self._models.label(noted.word("model")), noted.word("purpose"))
        tokens = noted.number("tokens")
        self._calls.labels(*who, noted.word("outcome", "ok")).inc(noted.number("calls"))
        self._call_s.labels(*who).observe(seconds)
        self._texts.labels(*who).inc(noted.number("texts"))
        self._tokens.labels(*who).inc(tokens)
        if provider in self._prices:
            self._cost.labels(*who).inc(tokens * self._prices[provider] / 1_000_000)


class _WithoutCreated(Collector):
    """A registry without the time at which each counter was made: half of all series, which nobody asks for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family

    def describe(self) -> Iterable[Metric]:
        return ()


class _Noted:
    """The facts of one operation."""

    def __init__(self, facts: Mapping[str, Fact]) -> None:
        self.facts = dict(facts)

    def note(self, **facts: Fact) -> None:
        self.facts.update(facts)

    def word(self, name: str, default: str = "") -> str:
        return str(self.facts.get(name, default))

    def number(self, name: str) -> float:
        return float(self.facts.get(name, 0))
