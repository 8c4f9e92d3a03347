"""Traces of what a process does, as an extra: off unless the standard ``OTEL_…`` variables ask for them.

A request that asks for work and the pass it causes in another process are one trace: the nudge carries the request's
``traceparent``. A nudge that is lost leaves two traces, as the tick then asks. Spans hold ids, names and numbers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from knowledge_worker.errors import ConfigurationError, KnowledgeError
from knowledge_worker.ports import Fact, Observation, Operation

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

log = structlog.get_logger()

SERVICE: Final = "knowledge-worker"
TRACEPARENT: Final = "traceparent"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_HTTP: Final = {"method": "http.request.method", "route": "http.route", "status": "http.response.status_code"}
_WELL: Final = ("ok", "incomplete", "cancelled", "left", "degraded", "gone")
_SERVER_ERROR: Final = 500


def wanted(environ: Mapping[str, str]) -> bool:
    """Whether the standard variables ask for traces."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environ.get("OTEL_TRACES_EXPORTER", "")
    if exporter:
        return exporter != "none"
    return any(environ.get(name) for name in _ENDPOINTS)


def tracing() -> tuple[Tracing, Callable[[], None]] | None:
    """The traces of this process, and what sends the last ones and ends them; None where nobody asks for any.

    An application that set up a tracer provider gets our spans there, and ends it itself.

    Raises:
        ConfigurationError: ``OTEL_TRACES_EXPORTER`` names something else than ``otlp``, ``console`` or ``none``.
    """
    found = _of_the_application()
    if found is not None:
        return found, lambda: None
    if not wanted(os.environ):
        return None
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = _exporter(os.environ.get("OTEL_TRACES_EXPORTER") or "otlp")
    except ImportError:
        log.warning("traces_not_sent", error="The extra is missing: pip install 'knowledge-worker[otel]'.")
        return None
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if named else {"service.name": SERVICE}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider.get_tracer(SERVICE)), provider.shutdown


class Tracing:
    """An :class:`~knowledge_worker.ports.Observer` that makes a span of each operation."""

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = tracer
        # Nothing else that a caller sends is passed on: messages stay small.
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def during(
        self, operation: Operation, *, carrier: Mapping[str, str] | None = None, **facts: Fact
    ) -> Generator[Observation]:
        """A span around the operation, below the current one or below the one that ``carrier`` tells of."""
        from opentelemetry.trace import SpanKind, get_current_span

        kinds = {
            Operation.REQUEST: SpanKind.SERVER,
            Operation.TASK: SpanKind.CONSUMER,
            Operation.CALL: SpanKind.CLIENT,
        }
        inside = get_current_span().get_span_context().is_valid
        with self._tracer.start_as_current_span(
            _name(operation, facts),
            context=self._propagator.extract(carrier) if carrier and not inside else None,
            kind=kinds.get(operation, SpanKind.INTERNAL),
            # An exception of a library may quote a document.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            seen = _Seen(span, operation)
            seen.note(**facts)
            try:
                yield seen
            except BaseException as error:
                seen.failed(error.code if isinstance(error, KnowledgeError) else type(error).__name__)
                raise

    def leases_expired(self, count: int) -> None:
        """Nothing: that is no part of what is done."""

    def provider_paused(self, provider: str) -> None:
        """Nothing: the call's span tells why."""

    def carrier(self) -> dict[str, str]:
        """The current span, if there is one."""
        found: dict[str, str] = {}
        self._propagator.inject(found)
        return {name: value for name, value in found.items() if name == TRACEPARENT}


class _Seen:
    def __init__(self, span: Span, operation: Operation) -> None:
        self._span = span
        self._operation = operation
        self._facts: dict[str, Fact] = {}

    def note(self, **facts: Fact) -> None:
        self._facts.update(facts)
        http = _HTTP if self._operation is Operation.REQUEST else {}
        for name, value in facts.items():
            plain = value if isinstance(value, bool | int | float) else str(value)
            self._span.set_attribute(http.get(name, f"knowledge.{name}"), plain)
        if "route" in facts:
            self._span.update_name(_name(self._operation, self._facts))
        outcome, status = facts.get("outcome", "ok"), facts.get("status", 0)
        if outcome not in _WELL or (isinstance(status, int) and status >= _SERVER_ERROR):
            self.failed(str(status if "status" in facts else outcome))

    def failed(self, why: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attribute("error.type", why)
        self._span.set_status(Status(StatusCode.ERROR))


def _name(operation: Operation, facts: Mapping[str, Fact]) -> str:
    """Of a span; there are few different ones."""
    match operation:
        case Operation.REQUEST:
            return f"{facts.get('method', '')} {facts.get('route', '')}".strip()
        case Operation.TASK:
            return str(facts.get("task", operation))
        case Operation.CALL:
            return f"embed {facts.get('model', '')}".strip()
        case _:
            return operation.value


def _of_the_application() -> Tracing | None:
    """Spans through a provider that this process has set up already."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Tracing(provider.get_tracer(SERVICE))


def _exporter(name: str) -> SpanExporter:
    match name:
        case "otlp":
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            return OTLPSpanExporter()
        case "console":
            from opentelemetry.sdk.trace.export import ConsoleSpanExporter

            return ConsoleSpanExporter(out=sys.stderr)
        case _:
            raise ConfigurationError("OTEL_TRACES_EXPORTER: otlp, console or none is expected.")
