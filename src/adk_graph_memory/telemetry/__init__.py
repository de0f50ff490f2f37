"""Emit OpenTelemetry spans and metrics to the provider that the application sets up; without one, do nothing.

Names follow the semantic conventions: GenAI's for memory and models, the stable ones for databases. Spans and metrics
never name the user, and contain text only if :func:`~adk_graph_memory.settings.is_text_captured`.
"""

from adk_graph_memory.telemetry.instruments import record_facts, record_ingest, record_pending
from adk_graph_memory.telemetry.operations import (
    annotate_memories,
    annotate_memory_ids,
    annotate_query,
    trace_methods,
    trace_operation,
)
from adk_graph_memory.telemetry.tracing import (
    Attributes,
    Link,
    get_database_attributes,
    link_current_span,
    trace_background,
    trace_model_call,
    trace_statement,
)

__all__ = [
    "Attributes",
    "Link",
    "annotate_memories",
    "annotate_memory_ids",
    "annotate_query",
    "link_current_span",
    "record_ingest",
    "trace_background",
    "trace_model_call",
]
__all__ += [
    "get_database_attributes",
    "record_facts",
    "record_pending",
    "trace_methods",
    "trace_operation",
    "trace_statement",
]
