"""What is done goes in; spans and metrics come out, for whichever OpenTelemetry provider the application has set up.

Names are those of the semantic conventions: GenAI's for memory and models, the stable ones for databases. Who the user
is stands in none of it, and nobody's words do, unless :func:`~adk_graph_memory.settings.captures_text`. Without a
provider all of it ends in the API's no-ops.
"""

from adk_graph_memory.telemetry.instruments import ingested, waiting, written
from adk_graph_memory.telemetry.operations import about, about_ids, asked, operation, operations
from adk_graph_memory.telemetry.spans import Attributes, Link, apart, here, inference, place, statement
from adk_graph_memory.telemetry.stopwatch import Stopwatch

__all__ = ["Attributes", "Link", "Stopwatch", "about", "about_ids", "apart", "asked", "here", "inference", "ingested"]
__all__ += ["operation", "operations", "place", "statement", "waiting", "written"]
