"""Wrap work in spans that record its duration and the class of its error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import TracebackType
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import Histogram
from opentelemetry.trace import Link as Link
from opentelemetry.trace import SpanKind, StatusCode

from adk_graph_memory import errors
from adk_graph_memory.records import Usage
from adk_graph_memory.telemetry import instruments

Attributes = Mapping[str, str | int]

tracer = trace.get_tracer(instruments.INSTRUMENTATION_NAME)


class TimedSpan:
    """A context manager for a span and, given a histogram, a measurement of its duration.

    OpenTelemetry's own context manager records the error's message, which may quote what a user said.

    Args:
        name: the span's name; of low cardinality.
        kind: CLIENT if another process does the work.
        metric_attributes: attributes of the span and the measurement; of low cardinality.
        histogram: records the seconds.
        span_attributes: attributes of the span alone.
        context: the parent context, if not the current one.
        links: links to related spans.
    """

    def __init__(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        metric_attributes: Attributes | None = None,
        histogram: Histogram | None = None,
        span_attributes: Attributes | None = None,
        context: Context | None = None,
        links: Sequence[Link] = (),
    ) -> None:
        self._metric_attributes, self._histogram = metric_attributes or {}, histogram
        attributes = {**self._metric_attributes, **(span_attributes or {})}
        self._span = tracer.start_span(name, context, kind, attributes, links)

    def __enter__(self) -> trace.Span:
        is_valid = self._span.get_span_context().is_valid
        self._token = attach(trace.set_span_in_context(self._span)) if is_valid else None
        self._start_time = time.perf_counter()
        return self._span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        error_attributes = self._get_error_attributes(error) if error is not None else {}
        if self._histogram is not None:
            seconds = time.perf_counter() - self._start_time
            self._histogram.record(seconds, {**self._metric_attributes, **error_attributes})
        if error_attributes:
            self._span.set_attributes(error_attributes)
            self._span.set_status(StatusCode.ERROR)
        self._span.end()
        if self._token is not None:
            detach(self._token)

    def _get_error_attributes(self, error: BaseException) -> Attributes:
        return {"error.type": type(error).__qualname__}


class _StatementSpan(TimedSpan):
    """A span of a database statement, whose errors carry the server's code."""

    def _get_error_attributes(self, error: BaseException) -> Attributes:
        origin = error.__cause__ if isinstance(error, errors.GraphMemoryError) and error.__cause__ else error
        code = getattr(origin, "code", None)
        return (
            {"error.type": code, "db.response.status_code": code}
            if isinstance(code, str)
            else super()._get_error_attributes(origin)
        )


def trace_statement(name: str, database_attributes: Attributes) -> TimedSpan:
    """Trace a database statement by the name of its Cypher block; see :func:`get_database_attributes`."""
    return _StatementSpan(
        name,
        SpanKind.CLIENT,
        {**database_attributes, "db.query.summary": name},
        instruments.active_instruments.statement_duration,
    )


@lru_cache(maxsize=64)
def get_database_attributes(uri: str | None, database: str) -> Attributes:
    """Make the attributes of a database; without the server's address if ``uri`` is None."""
    address = urlsplit(uri or "")
    server = {"server.address": address.hostname, "server.port": address.port}
    server_attributes = {name: value for name, value in server.items() if value is not None}
    return {"db.system.name": "neo4j", "db.namespace": database, **server_attributes}


@contextmanager
def trace_model_call(provider: str, model: str) -> Iterator[Callable[[Usage], None]]:
    """Trace a model call; yield a function that records its token usage.

    The operation is ``chat`` even for Gemini: ``adk web`` takes every ``generate_content`` span for an agent's, and
    shows none of a session's spans if one of these has no event (``google/adk/cli/browser``).
    ``tests/acceptance/test_trace_view.py`` checks that this is still so.
    """
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider, "gen_ai.request.model": model}
    histogram = instruments.active_instruments.operation_duration
    with TimedSpan(f"chat {model}", SpanKind.CLIENT, attributes, histogram) as span:

        def record_usage(usage: Usage) -> None:
            for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if tokens:
                    span.set_attribute(f"gen_ai.usage.{direction}_tokens", tokens)
                    instruments.active_instruments.token_usage.record(
                        tokens, {**attributes, "gen_ai.token.type": direction}
                    )
            if usage.cached_tokens:
                span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens)

        yield record_usage


def link_current_span() -> list[Link]:
    """Return a link to the current span, for later background work; an empty list without a span."""
    context = trace.get_current_span().get_span_context()
    return [Link(context)] if context.is_valid else []


def trace_background(name: str, links: Sequence[Link] = ()) -> TimedSpan:
    """Trace background work in a trace of its own, linked to the spans that caused it."""
    return TimedSpan(name, context=Context(), links=links)
