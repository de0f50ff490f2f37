"""The only room that speaks Cypher: it fetches and applies, and knows neither models nor ADK."""

from adk_graph_memory.graph import (
    artifacts,
    candidates,
    forgetting,
    ingests,
    knowledge,
    memories,
    migrate,
    reembed,
    sessions,
)
from adk_graph_memory.graph.connection import Auth, Connection
from adk_graph_memory.graph.locks import Locks
from adk_graph_memory.graph.migrate import prepared
from adk_graph_memory.graph.options import ConnectionOptions
from adk_graph_memory.graph.slots import Embedded, LiveSlot, Slot
from adk_graph_memory.graph.speakers import Speakers

__all__ = ["Auth", "Connection", "ConnectionOptions", "Embedded", "LiveSlot", "Locks", "Slot", "Speakers", "prepared"]
__all__ += ["artifacts", "candidates", "forgetting", "ingests", "knowledge", "memories", "migrate", "reembed"]
__all__ += ["sessions"]
