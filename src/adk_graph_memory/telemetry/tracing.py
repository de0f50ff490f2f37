"""A piece of work goes in; a span around it comes out, with the time it took and the class of its error."""

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
    """A span around some work and, where there is a histogram, the time that the work takes.

    OpenTelemetry's own context manager puts an error's message into the span, which may quote what was said.

    Args:
        name: of few values.
        kind: CLIENT where another process does the work.
        measured: attributes of few values: the span's, and the measurement's.
        histogram: takes the seconds.
        further: attributes of the span alone.
        context: in which the span begins, if not in the current one.
        links: to spans that it has to do with.
    """

    def __init__(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        measured: Attributes | None = None,
        histogram: Histogram | None = None,
        further: Attributes | None = None,
        context: Context | None = None,
        links: Sequence[Link] = (),
    ) -> None:
        self._metric_attributes, self._histogram = measured or {}, histogram
        self._span = tracer.start_span(name, context, kind, {**self._metric_attributes, **(further or {})}, links)

    def __enter__(self) -> trace.Span:
        exists = self._span.get_span_context().is_valid
        self._token = attach(trace.set_span_in_context(self._span)) if exists else None
        self._start_time = time.perf_counter()
        return self._span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        failed = self._get_error_attributes(error) if error is not None else {}
        if self._histogram is not None:
            self._histogram.record(time.perf_counter() - self._start_time, {**self._metric_attributes, **failed})
        if failed:
            self._span.set_attributes(failed)
            self._span.set_status(StatusCode.ERROR)
        self._span.end()
        if self._token is not None:
            detach(self._token)

    def _get_error_attributes(self, error: BaseException) -> Attributes:
        return {"error.type": type(error).__qualname__}


class _StatementSpan(TimedSpan):
    """The same of a statement, whose errors have a code of the server's."""

    def _get_error_attributes(self, error: BaseException) -> Attributes:
        origin = error.__cause__ if isinstance(error, errors.GraphMemoryError) and error.__cause__ else error
        code = getattr(origin, "code", None)
        return (
            {"error.type": code, "db.response.status_code": code}
            if isinstance(code, str)
            else super()._get_error_attributes(origin)
        )


def trace_statement(name: str, place: Attributes) -> TimedSpan:
    """Around a database statement, by the name of its block, at a :func:`get_database_attributes`."""
    return _StatementSpan(
        name, SpanKind.CLIENT, {**place, "db.query.summary": name}, instruments.active_instruments.statement_duration
    )


@lru_cache(maxsize=64)
def get_database_attributes(uri: str | None, database: str) -> Attributes:
    """Where statements run; without an address if only a caller's driver knows it."""
    address = urlsplit(uri or "")
    server = {"server.address": address.hostname, "server.port": address.port}
    known = {name: value for name, value in server.items() if value is not None}
    return {"db.system.name": "neo4j", "db.namespace": database, **known}


@contextmanager
def trace_model_call(provider: str, model: str) -> Iterator[Callable[[Usage], None]]:
    """Around a call of a language model; what it gives takes in what the call cost.

    It is a ``chat`` even where Gemini is the model: ``adk web`` takes every ``generate_content`` for the work of one of
    its agents, and shows none of a session's spans if one of them names no event (``google/adk/cli/browser``;
    ``tests/acceptance/test_trace_view.py`` tells when that is over).
    """
    measured = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
    }
    with TimedSpan(
        f"chat {model}", SpanKind.CLIENT, measured, instruments.active_instruments.operation_duration
    ) as span:

        def spent(usage: Usage) -> None:
            for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if tokens:
                    span.set_attribute(f"gen_ai.usage.{direction}_tokens", tokens)
                    instruments.active_instruments.token_usage.record(
                        tokens, {**measured, "gen_ai.token.type": direction}
                    )
            if usage.cached_tokens:
                span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens)

        yield spent


def link_current_span() -> list[Link]:
    """A link to the current span, for what goes on after it; none where there is no span."""
    context = trace.get_current_span().get_span_context()
    return [Link(context)] if context.is_valid else []


def trace_background(name: str, links: Sequence[Link] = ()) -> TimedSpan:
    """Around what goes on in the background: a trace of its own, linked to those who asked for it."""
    return TimedSpan(name, context=Context(), links=links)
