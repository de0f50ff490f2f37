"""What is done goes in; spans and metrics come out, for whichever OpenTelemetry provider the application has set up.

Names are those of the semantic conventions: GenAI's for memory and models, the stable ones for databases. Who the user
is stands in none of it, and nobody's words do, unless :func:`~adk_graph_memory.settings.is_text_captured`. Without a
provider all of it ends in the API's no-ops.
"""

from adk_graph_memory.telemetry.instruments import record_facts, record_ingest, record_pending
from adk_graph_memory.telemetry.operations import (
    annotate_memories,
    annotate_memory_ids,
    annotate_query,
    trace_methods,
    trace_operation,
)
from adk_graph_memory.telemetry.stopwatch import Stopwatch
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
    "Stopwatch",
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
