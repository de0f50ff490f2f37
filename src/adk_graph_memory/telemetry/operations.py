"""Trace the methods of services, and annotate their spans with sessions, queries and memories."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

from opentelemetry import trace
from opentelemetry.trace import SpanKind

from adk_graph_memory.records import NO_SESSION, Recollection, Statement, Turn
from adk_graph_memory.settings import is_text_captured
from adk_graph_memory.telemetry import instruments
from adk_graph_memory.telemetry.tracing import Attributes, TimedSpan

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[P, Awaitable[T]]
TracedMethod = Callable[P, Coroutine[Any, Any, T]]


def trace_operation(name: str) -> Callable[[Method[P, T]], TracedMethod[P, T]]:
    """Decorate a memory operation: it runs in a span, and its duration is measured.

    Args:
        name: the operation's name in the conventions; the method's object must have a ``connection``.
    """
    return lambda method: _trace_method(method, name, is_measured=True)


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
        histogram = instruments.active_instruments.operation_duration if is_measured else None
        with TimedSpan(name, SpanKind.INTERNAL, metric_attributes, histogram, session_attributes) as span:
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
