"""Emit OpenTelemetry spans and metrics to the application's provider, and log each lasting problem once.

Names follow the semantic conventions: GenAI's for memory and models, the stable ones for databases. Spans and metrics
never name the user, and contain text only if :func:`~adk_graph_memory.runtime.environment.is_text_captured`.

ADK opens no spans around its services. So this package opens them around the services' methods, those of
``GraphMemory`` (whose text is redacted by then), calls of a model, and statements.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from opentelemetry import metrics, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import Histogram
from opentelemetry.trace import Link as Link
from opentelemetry.trace import SpanKind, StatusCode

from adk_graph_memory import errors
from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.records.results import Recollection
from adk_graph_memory.records.turns import NO_SESSION, Statement, Turn
from adk_graph_memory.runtime.environment import is_text_captured

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[P, Awaitable[T]]
TracedMethod = Callable[P, Coroutine[Any, Any, T]]
Attributes = Mapping[str, str | int]

INSTRUMENTATION_NAME = "adk_graph_memory"
"""Name of the tracer and the meter, and prefix of metric names that no convention defines."""
DURATION_BUCKETS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
STATEMENT_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
TOKEN_BUCKETS = [4**power for power in range(14)]
"""The three above are the conventions' buckets; those below are our own."""
LAG_BUCKETS = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400]


class Instruments:
    """All metric instruments.

    Args:
        meter: the API's meter, which forwards to the application's provider as soon as one is set.
    """

    def __init__(self, meter: metrics.Meter) -> None:
        def histogram(name: str, unit: str, buckets: Sequence[float], description: str) -> metrics.Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)

        self.operation_duration = histogram(
            "gen_ai.client.operation.duration", "s", DURATION_BUCKETS, "GenAI operation duration."
        )
        self.token_usage = histogram(
            "gen_ai.client.token.usage", "{token}", TOKEN_BUCKETS, "Number of input and output tokens used."
        )
        self.statement_duration = histogram(
            "db.client.operation.duration", "s", STATEMENT_BUCKETS, "Duration of database client operations."
        )
        self.ingest_lag = histogram(
            f"{INSTRUMENTATION_NAME}.ingest.lag",
            "s",
            LAG_BUCKETS,
            "From a request to remember to the commit of what came of it.",
        )
        self.pending_requests = meter.create_gauge(
            f"{INSTRUMENTATION_NAME}.ingest.pending",
            "{request}",
            "Requests to remember of an app that wait or are being read.",
        )
        self.fact_counter = meter.create_counter(
            f"{INSTRUMENTATION_NAME}.facts", "{fact}", "Facts that were written, by operation."
        )


active_instruments = Instruments(metrics.get_meter(INSTRUMENTATION_NAME))


def record_facts(facts: Mapping[str, int]) -> None:
    """Count committed facts by operation."""
    for op, count in facts.items():
        active_instruments.fact_counter.add(count, {f"{INSTRUMENTATION_NAME}.op": op})


def record_ingest(facts: Mapping[str, int], seconds: float) -> None:
    """Count the facts of an ingest request that was committed ``seconds`` after it was made."""
    active_instruments.ingest_lag.record(seconds)
    record_facts(facts)


def record_pending(app_name: str, count: int) -> None:
    """Record the number of an app's pending ingest requests."""
    active_instruments.pending_requests.set(count, {f"{INSTRUMENTATION_NAME}.app_name": app_name})


# -- spans ----------------------------------------------------------------------------------------------------------
tracer = trace.get_tracer(INSTRUMENTATION_NAME)


def name_error_class(error: BaseException) -> Attributes:
    """Make the attributes of an error; its message is left out, because it may quote what a user said."""
    return {"error.type": type(error).__qualname__}


def name_server_code(error: BaseException) -> Attributes:
    """Make the attributes of a failed statement: the server's code, if there is one."""
    origin = error.__cause__ if isinstance(error, errors.GraphMemoryError) and error.__cause__ else error
    code = getattr(origin, "code", None)
    return {"error.type": code, "db.response.status_code": code} if isinstance(code, str) else name_error_class(origin)


@contextmanager
def trace_block(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    metric_attributes: Attributes | None = None,
    histogram: Histogram | None = None,
    span_attributes: Attributes | None = None,
    *,
    context: Context | None = None,
    links: Sequence[Link] = (),
    describe_error: Callable[[BaseException], Attributes] = name_error_class,
) -> Iterator[trace.Span]:
    """Run a block in a span and, given a histogram, measure its duration.

    Args:
        name: the span's name; of low cardinality.
        kind: CLIENT if another process does the work.
        metric_attributes: attributes of the span and the measurement; of low cardinality.
        histogram: records the seconds.
        span_attributes: attributes of the span alone.
        context: the parent context, if not the current one.
        links: links to related spans.
        describe_error: makes the attributes of an error, which is then raised again.
    """
    metric_attributes, start_time = dict(metric_attributes or {}), time.perf_counter()
    attributes = {**metric_attributes, **(span_attributes or {})}
    span = tracer.start_span(name, context, kind, attributes, links)
    # OpenTelemetry's own context manager takes five times as long, and a search has several spans.
    token = attach(trace.set_span_in_context(span)) if span.get_span_context().is_valid else None
    try:
        yield span
    except BaseException as error:
        metric_attributes |= (error_attributes := describe_error(error))
        span.set_attributes(error_attributes)
        span.set_status(StatusCode.ERROR)
        raise
    finally:
        if histogram is not None:
            histogram.record(time.perf_counter() - start_time, metric_attributes)
        span.end()
        if token is not None:
            detach(token)


def trace_statement(name: str, database_attributes: Attributes) -> AbstractContextManager[trace.Span]:
    """Trace a database statement by the name of its Cypher block; see :func:`get_database_attributes`."""
    metric_attributes = {**database_attributes, "db.query.summary": name}
    histogram = active_instruments.statement_duration
    return trace_block(name, SpanKind.CLIENT, metric_attributes, histogram, describe_error=name_server_code)


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
    histogram = active_instruments.operation_duration
    with trace_block(f"chat {model}", SpanKind.CLIENT, attributes, histogram) as span:

        def record_usage(usage: Usage) -> None:
            for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if tokens:
                    span.set_attribute(f"gen_ai.usage.{direction}_tokens", tokens)
                    active_instruments.token_usage.record(tokens, {**attributes, "gen_ai.token.type": direction})
            if usage.cached_tokens:
                span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens)

        yield record_usage


def link_current_span() -> list[Link]:
    """Return a link to the current span, for later background work; an empty list without a span."""
    context = trace.get_current_span().get_span_context()
    return [Link(context)] if context.is_valid else []


def trace_background(name: str, links: Sequence[Link] = ()) -> AbstractContextManager[trace.Span]:
    """Trace background work in a trace of its own, linked to the spans that caused it."""
    return trace_block(name, context=Context(), links=links)


# -- operations -----------------------------------------------------------------------------------------------------
def trace_operation(name: str) -> Callable[[Method[P, T]], TracedMethod[P, T]]:
    """Decorate a memory operation: it runs in a span, and its duration is measured.

    Args:
        name: the operation's name in the conventions; the function's first argument must have a ``connection``.
    """
    return lambda operation: _trace_method(operation, name, is_measured=True)


def trace_methods(service: type[T]) -> type[T]:
    """Decorate a class: each public coroutine method except ``close`` runs in a span with the method's name."""
    for name, method in list(vars(service).items()):
        if iscoroutinefunction(method) and not name.startswith("_") and name != "close":
            setattr(service, name, _trace_method(method, name, is_measured=False))
    return service


def _trace_method(method: Method[P, T], name: str, *, is_measured: bool) -> TracedMethod[P, T]:
    metric_attributes = {"gen_ai.operation.name": name}

    @wraps(method)
    async def traced(*args: P.args, **kwargs: P.kwargs) -> T:
        session_attributes = _get_session_attributes(args, kwargs)
        histogram = active_instruments.operation_duration if is_measured else None
        with trace_block(name, SpanKind.INTERNAL, metric_attributes, histogram, session_attributes) as span:
            if is_measured and span.is_recording():
                owner: Any = args[0]
                span.set_attribute("gen_ai.memory.store.id", owner.connection.store_id)
            result = await method(*args, **kwargs)
            if not session_attributes:
                span.set_attributes(_get_session_attributes((None, result), {}))
            return result

    return traced


def _get_session_attributes(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Attributes:
    """Find the session of a call: its id by keyword, or a session object by keyword or as first argument."""
    session = kwargs.get("session") or (args[1] if len(args) > 1 else None)
    id = kwargs.get("session_id") or getattr(session, "id", None)
    return {"gen_ai.conversation.id": id.strip()} if isinstance(id, str) and id not in ("", NO_SESSION) else {}


def annotate_query(question: str) -> None:
    """Add the question to the current span, if text is captured."""
    span = trace.get_current_span()
    if span.is_recording() and is_text_captured():
        span.set_attribute("gen_ai.memory.query.text", question)


def annotate_memories(records: Sequence[Turn | Statement | Recollection]) -> None:
    """Add the number of memories written or found to the current span, and their content if text is captured."""
    span = trace.get_current_span()
    if span.is_recording():
        span.set_attribute("gen_ai.memory.record.count", len(records))
        if is_text_captured():
            content = json.dumps([_describe_memory(record) for record in records], ensure_ascii=False)
            span.set_attribute("gen_ai.memory.records", content)


def annotate_memory_ids(ids: Sequence[str]) -> None:
    """Add the number of affected memories to the current span, and the id if there is only one."""
    span = trace.get_current_span()
    span.set_attribute("gen_ai.memory.record.count", len(ids))
    if len(ids) == 1:
        span.set_attribute("gen_ai.memory.record.id", ids[0])


def _describe_memory(record: Turn | Statement | Recollection) -> dict[str, Any]:
    """Describe a memory in the conventions' schema."""
    fields = {"id": record.id, "content": record.text, "score": getattr(record, "score", None)}
    description = {name: value for name, value in fields.items() if value is not None}
    return {**description, "metadata": {"author": record.author}} if record.author else description


KNOWN_CAUSES = 32
"""The latest causes of a problem, by kind and by words, that are not logged again."""


class ProblemLog:
    """Logs what keeps a task from being done: each cause once, until the task is done again.

    Each memory has one.

    Args:
        logger: gets one line for an error of this package, and the traceback of any other.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger, self._lock = logger, threading.Lock()
        self._causes = defaultdict[str, deque[tuple[object, ...]]](lambda: deque(maxlen=KNOWN_CAUSES))

    def report_problem(self, task: str, error: BaseException, level: int = logging.WARNING) -> None:
        """Log what keeps the task from being done, unless it has done so since the task was last done.

        Args:
            task: what fails, as the line begins: "Memories are searched by full text alone".
            error: why.
            level: how much it matters.
        """
        is_ours = isinstance(error, errors.GraphMemoryError | TimeoutError)
        reason = " ".join(str(error).split()) or type(error).__name__
        cause = type(error), type(error.__cause__), None if is_ours else reason
        with self._lock:
            causes = self._causes[task]
            if cause in causes or (reason,) in causes:
                return
            causes += cause, (reason,)
        self._logger.log(level, "%s: %s", task, reason, exc_info=None if is_ours else error, stacklevel=2)

    def has_problem(self, task: str) -> bool:
        """Whether something has kept the task from being done since it was last done."""
        with self._lock:
            return task in self._causes

    def clear_problem(self, task: str) -> None:
        """Note that the task was done, so that a later problem is logged again."""
        with self._lock:
            self._causes.pop(task, None)
