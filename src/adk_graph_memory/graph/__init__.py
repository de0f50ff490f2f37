"""Read and write the graph. Only this package contains Cypher; it depends on neither models nor ADK."""

from typing import TYPE_CHECKING

from adk_graph_memory.lazy_names import import_at_use

if TYPE_CHECKING:
    from neo4j import AsyncDriver as AsyncDriver
    from neo4j import Driver as Driver

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
        planning,
        profile_facts,
        proposals,
        pruning,
        reembed,
        rereads,
        sessions,
        user_export,
        user_import,
    )
    from adk_graph_memory.graph.append_queue import AppendResult as AppendResult
    from adk_graph_memory.graph.connection import Auth as Auth
    from adk_graph_memory.graph.connection import Connection as Connection
    from adk_graph_memory.graph.connection import Transaction as Transaction
    from adk_graph_memory.graph.locks import KeyedLocks as KeyedLocks
    from adk_graph_memory.graph.migrate import prepare_connection as prepare_connection
    from adk_graph_memory.graph.planning import PlannedStatement as PlannedStatement
    from adk_graph_memory.graph.speakers import SpeakerCache as SpeakerCache
    from adk_graph_memory.graph.speakers import SpeakerProfile as SpeakerProfile
    from adk_graph_memory.graph.vector_slots import EmbeddingBatch as EmbeddingBatch
    from adk_graph_memory.graph.vector_slots import LiveSlotTracker as LiveSlotTracker
    from adk_graph_memory.graph.vector_slots import VectorSlot as VectorSlot
else:
    _NAMES = {
        "adk_graph_memory.graph.append_queue": ("AppendResult",),
        "adk_graph_memory.graph.connection": ("Auth", "Connection", "Transaction"),
        "adk_graph_memory.graph.locks": ("KeyedLocks",),
        "adk_graph_memory.graph.migrate": ("prepare_connection",),
        "adk_graph_memory.graph.planning": ("PlannedStatement",),
        "adk_graph_memory.graph.speakers": ("SpeakerCache", "SpeakerProfile"),
        "adk_graph_memory.graph.vector_slots": ("EmbeddingBatch", "LiveSlotTracker", "VectorSlot"),
        "neo4j": ("AsyncDriver", "Driver"),
    }
    __getattr__ = import_at_use(__name__, _NAMES)
