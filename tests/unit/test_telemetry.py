"""Spans and metrics reach the provider that the application sets, and nobody where it sets none."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from google.adk.telemetry.context import TelemetryConfig
from opentelemetry import trace

from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.runtime import environment, telemetry
from adk_graph_memory.runtime.settings import Settings

A_PROVIDER_OF_THE_APPLICATIONS = """
import asyncio
import adk_graph_memory
from adk_graph_memory.runtime import telemetry
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

@telemetry.trace_methods
class Service:
    async def append_event(self):
        with telemetry.trace_statement("append_event", telemetry.get_database_attributes("bolt://h:1", "neo4j")):
            pass

assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
assert type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"
asyncio.run(Service().append_event())
exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
metrics.set_meter_provider(MeterProvider([reader]))
asyncio.run(Service().append_event())
print(*(f"{span.name}/{span.kind.name}" for span in exporter.get_finished_spans()))
[resource] = reader.get_metrics_data().resource_metrics
[scope] = resource.scope_metrics
for metric in scope.metrics:
    for point in metric.data.data_points:
        print(scope.scope.name, metric.name, metric.unit, point.count, *point.explicit_bounds[:2])
"""


def test_a_provider_that_is_set_after_the_import_gets_all_and_none_is_set_by_us() -> None:
    # In a process of its own: a provider is set once, for good.
    code = A_PROVIDER_OF_THE_APPLICATIONS
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "append_event/CLIENT append_event/INTERNAL",
        "adk_graph_memory db.client.operation.duration s 1 0.001 0.005",
    ]


@pytest.fixture
def no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "tracer", trace.NoOpTracer())


async def test_without_a_provider_the_callers_span_stays_the_current_one(no_provider: None) -> None:
    seen = []

    @telemetry.trace_methods
    class Service:
        async def get_session(self, *, session_id: str) -> str:
            seen.append(trace.get_current_span().get_span_context())
            return session_id

    callers = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False))
    with trace.use_span(callers):
        assert await Service().get_session(session_id="monday") == "monday"
    assert await Service().get_session(session_id="monday") == "monday"
    assert seen == [callers.get_span_context(), trace.INVALID_SPAN_CONTEXT]


async def test_whatever_is_raised_goes_on_to_the_caller(no_provider: None) -> None:
    class Service:
        connection = SimpleNamespace(store="neo4j")

        @telemetry.trace_operation("search_memory")
        async def recall(self) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Service().recall()
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize(
    ("value", "captures"),
    [
        ("", False),
        ("true", False),
        ("NO_CONTENT", False),
        ("EVENT_ONLY", False),
        ("yes", False),
        ("SPAN_ONLY", True),
        ("SPAN_AND_EVENT", True),
        (" span_only ", True),
    ],
)
def test_text_is_captured_where_adk_would_put_it_into_spans(
    monkeypatch: pytest.MonkeyPatch, value: str, captures: bool
) -> None:
    assert environment.is_text_captured() is False
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
    assert environment.is_text_captured() is captures
    assert TelemetryConfig().should_add_content_to_experimental_spans is captures


@pytest.mark.parametrize(
    ("uri", "server"),
    [
        ("neo4j+s://db.example.org", {"server.address": "db.example.org"}),
        ("bolt://127.0.0.1:7688", {"server.address": "127.0.0.1", "server.port": 7688}),
        ("bolt://[::1]:7687", {"server.address": "::1", "server.port": 7687}),
    ],
)
def test_a_place_is_a_database_on_a_server(uri: str, server: dict[str, str | int]) -> None:
    place = Connection(
        uri, settings=Settings(database="memories", username="ada", password="correct-horse")
    ).telemetry_attributes
    assert place == {"db.system.name": "neo4j", "db.namespace": "memories", **server}


def test_the_store_is_the_database_and_the_labels_prefix() -> None:
    assert Connection(settings=Settings(database="memories")).store_id == "memories"
    assert Connection(settings=Settings(database="memories", label_prefix="Adk")).store_id == "memories/Adk"
