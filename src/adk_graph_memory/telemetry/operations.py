"""A method of a service goes in; the same one in a span comes out, and what it is about goes into that span."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

from opentelemetry import trace

from adk_graph_memory.records import NO_SESSION, Recollection, Statement, Turn
from adk_graph_memory.settings import is_text_captured
from adk_graph_memory.telemetry import instruments
from adk_graph_memory.telemetry.tracing import Attributes, TimedSpan

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[P, Awaitable[T]]
TracedMethod = Callable[P, Coroutine[Any, Any, T]]


def trace_operation(name: str) -> Callable[[Method[P, T]], TracedMethod[P, T]]:
    """Has a method that does something to memory run in a span, and its time measured.

    Args:
        name: what it does, as the conventions call it; its object has a ``connection``.
    """
    return lambda method: _trace_method(method, name, is_measured=True)


def trace_methods(service: type[T]) -> type[T]:
    """Has each method of a class that can be awaited run in a span of the method's name; closing is none."""
    for name, method in list(vars(service).items()):
        if iscoroutinefunction(method) and not name.startswith("_") and name != "close":
            setattr(service, name, _trace_method(method, name, is_measured=False))
    return service


def _trace_method(method: Method[P, T], name: str, *, is_measured: bool) -> TracedMethod[P, T]:
    """The method in a span that names the session it is about."""
    named = {"gen_ai.operation.name": name}

    @wraps(method)
    async def traced(*args: P.args, **kwargs: P.kwargs) -> T:
        session = _get_session_attributes(args, kwargs)
        histogram = instruments.active_instruments.operation_duration if is_measured else None
        with TimedSpan(name, measured=named, histogram=histogram, further=session) as span:
            if is_measured and span.is_recording():
                owner: Any = args[0]
                span.set_attribute("gen_ai.memory.store.id", owner.connection.store_id)
            done = await method(*args, **kwargs)
            if not session:
                span.set_attributes(_get_session_attributes((None, done), {}))
            return done

    return traced


def _get_session_attributes(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Attributes:
    """Which session a call is about: named by its id, or handed over, as first argument or by name."""
    given = kwargs.get("session") or (args[1] if len(args) > 1 else None)
    id = kwargs.get("session_id") or getattr(given, "id", None)
    return {"gen_ai.conversation.id": id.strip()} if isinstance(id, str) and id not in ("", NO_SESSION) else {}


def annotate_query(question: str) -> None:
    """Tells the current operation's span what is asked, if text is captured."""
    span = trace.get_current_span()
    if span.is_recording() and is_text_captured():
        span.set_attribute("gen_ai.memory.query.text", question)


def annotate_memories(records: Sequence[Turn | Statement | Recollection]) -> None:
    """Tells the current operation's span how many memories it writes or has found; what they say, if captured."""
    span = trace.get_current_span()
    if span.is_recording():
        span.set_attribute("gen_ai.memory.record.count", len(records))
        if is_text_captured():
            told = json.dumps([_describe_memory(record) for record in records], ensure_ascii=False)
            span.set_attribute("gen_ai.memory.records", told)


def annotate_memory_ids(ids: Sequence[str]) -> None:
    """Tells the current operation's span how many memories it is about, and which if it is one."""
    span = trace.get_current_span()
    span.set_attribute("gen_ai.memory.record.count", len(ids))
    if len(ids) == 1:
        span.set_attribute("gen_ai.memory.record.id", ids[0])


def _describe_memory(record: Turn | Statement | Recollection) -> dict[str, Any]:
    """A memory in the conventions' schema."""
    told = {"id": record.id, "content": record.text, "score": getattr(record, "score", None)}
    known = {name: value for name, value in told.items() if value is not None}
    return {**known, "metadata": {"author": record.author}} if record.author else known
