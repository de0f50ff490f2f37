"""Read and write the graph. Only this package contains Cypher; it depends on neither models nor ADK."""

from neo4j import AsyncDriver, Driver

from adk_graph_memory.graph import (
    artifacts,
    candidates,
    forgetting,
    ingest_queue,
    knowledge,
    memories,
    migrate,
    pruning,
    reembed,
    sessions,
)
from adk_graph_memory.graph.connection import Auth, Connection
from adk_graph_memory.graph.locks import KeyedLocks
from adk_graph_memory.graph.migrate import prepare_connection
from adk_graph_memory.graph.speakers import SpeakerCache
from adk_graph_memory.graph.vector_slots import EmbeddingBatch, LiveSlotTracker, VectorSlot

__all__ = [
    "AsyncDriver",
    "Auth",
    "Connection",
    "Driver",
    "EmbeddingBatch",
    "KeyedLocks",
    "LiveSlotTracker",
    "SpeakerCache",
    "VectorSlot",
    "prepare_connection",
]
__all__ += ["artifacts", "candidates", "forgetting", "ingest_queue", "knowledge", "memories", "migrate", "reembed"]
__all__ += ["pruning", "sessions"]
