"""Read and write the graph. Only this package contains Cypher; it depends on neither models nor ADK."""

from neo4j import AsyncDriver, Driver

from adk_graph_memory.graph import (
    artifacts,
    candidates,
    derivation,
    forgetting,
    held_facts,
    imports,
    ingest_queue,
    inspection,
    invariants,
    knowledge,
    memories,
    migrate,
    past_export,
    profile_facts,
    proposals,
    pruning,
    reembed,
    rereads,
    sessions,
    user_export,
    user_import,
)
from adk_graph_memory.graph.append_queue import AppendResult
from adk_graph_memory.graph.connection import Auth, Connection, Transaction
from adk_graph_memory.graph.locks import KeyedLocks
from adk_graph_memory.graph.migrate import prepare_connection
from adk_graph_memory.graph.speakers import SpeakerCache
from adk_graph_memory.graph.vector_slots import EmbeddingBatch, LiveSlotTracker, VectorSlot

__all__ = [
    "AppendResult",
    "AsyncDriver",
    "Auth",
    "Connection",
    "Driver",
    "EmbeddingBatch",
    "KeyedLocks",
    "LiveSlotTracker",
    "SpeakerCache",
    "Transaction",
    "VectorSlot",
    "prepare_connection",
]
__all__ += ["artifacts", "candidates", "derivation", "forgetting", "imports", "ingest_queue", "knowledge", "memories"]
__all__ += ["inspection", "proposals"]
__all__ += ["held_facts", "invariants", "migrate", "profile_facts", "pruning", "reembed", "rereads", "sessions"]
__all__ += ["past_export", "user_export", "user_import"]
