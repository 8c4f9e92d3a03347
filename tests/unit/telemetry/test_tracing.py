"""Spans of operations: what they are called, what they hold, and how they hang together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from knowledge_worker.errors import ConfigurationError, ServiceUnavailableError
from knowledge_worker.ports import Operation
from knowledge_worker.telemetry.tracing import Tracing, tracing, wanted

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> Iterator[Tracing]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Tracing(provider.get_tracer("test"))
    provider.shutdown()


def spans(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_one_trace_from_the_caller_over_a_message_to_the_provider(
    traces: Tracing, exporter: InMemorySpanExporter
) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "baggage": "secret=1", "tracestate": "vendor=long"}
    with traces.during(Operation.REQUEST, carrier=headers, method="POST") as seen:
        message = traces.carrier()
        seen.note(route="/knowledge/collections/{name}/sync", status=202)
    assert message.keys() == {"traceparent"}, "a message carries no more than it needs"
    with (
        traces.during(Operation.TASK, carrier=message, task="knowledge.sync", collection="docs"),
        traces.during(Operation.PASS, collection="docs", trigger="request"),
        traces.during(Operation.CALL, provider="fake", model="m", purpose="document"),
    ):
        pass

    found = spans(exporter)
    names = ["POST /knowledge/collections/{name}/sync", "knowledge.sync", "pass", "embed m"]
    assert set(found) == set(names)
    assert {f"{span.context.trace_id:032x}" for span in found.values()} == {TRACE}
    parents = [found[name].parent.span_id for name in names]
    assert parents == [int(PARENT, 16), *(found[name].context.span_id for name in names[:3])]
    kinds = [SpanKind.SERVER, SpanKind.CONSUMER, SpanKind.INTERNAL, SpanKind.CLIENT]
    assert [found[name].kind for name in names] == kinds
    assert found[names[0]].attributes == {
        "http.request.method": "POST",
        "http.route": "/knowledge/collections/{name}/sync",
        "http.response.status_code": 202,
    }
    assert found["pass"].attributes == {"knowledge.collection": "docs", "knowledge.trigger": "request"}


def test_without_a_span_nothing_goes_along(traces: Tracing) -> None:
    assert traces.carrier() == {}


@pytest.mark.parametrize("headers", [{}, {"traceparent": "no such thing"}])
def test_a_request_from_nowhere_begins_a_trace(
    traces: Tracing, exporter: InMemorySpanExporter, headers: dict[str, str]
) -> None:
    with traces.during(Operation.REQUEST, carrier=headers, method="GET"):
        pass
    assert spans(exporter)["GET"].parent is None


def test_an_application_around_is_the_parent_whatever_the_headers_say(
    traces: Tracing, exporter: InMemorySpanExporter
) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    with traces.during(Operation.TASK, task="around"), traces.during(Operation.REQUEST, carrier=headers, method="GET"):
        pass
    found = spans(exporter)
    assert found["GET"].parent.span_id == found["around"].context.span_id


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ServiceUnavailableError("PostgreSQL is away."), "unavailable"), (ValueError("of a document"), "ValueError")],
)
def test_an_exception_is_told_by_its_kind_and_never_by_its_text(
    traces: Tracing, exporter: InMemorySpanExporter, error: Exception, kind: str
) -> None:
    with pytest.raises(type(error)), traces.during(Operation.SEARCH, mode="hybrid"):
        raise error
    span = spans(exporter)["search"]
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, kind)
    assert str(error) not in span.to_json()


@pytest.mark.parametrize(
    ("operation", "facts", "status"),
    [
        (Operation.CALL, {"outcome": "rate_limited"}, StatusCode.ERROR),
        (Operation.PASS, {"outcome": "failed"}, StatusCode.ERROR),
        (Operation.PASS, {"outcome": "incomplete"}, StatusCode.UNSET),
        (Operation.REQUEST, {"status": 503}, StatusCode.ERROR),
        (Operation.REQUEST, {"status": 404}, StatusCode.UNSET),
    ],
)
def test_what_counts_as_an_error(
    traces: Tracing, exporter: InMemorySpanExporter, operation: Operation, facts: dict[str, str], status: StatusCode
) -> None:
    with traces.during(operation) as seen:
        seen.note(**facts)
    (span,) = exporter.get_finished_spans()
    assert span.status.status_code is status


@pytest.mark.parametrize(
    ("environ", "on"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "knowledge"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
    ],
)
def test_the_standard_variables_ask_for_traces(environ: dict[str, str], on: bool) -> None:
    assert wanted(environ) is on


def test_an_exporter_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(ConfigurationError, match="OTEL_TRACES_EXPORTER"):
        tracing()


def test_nothing_is_set_up_when_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert tracing() is None
