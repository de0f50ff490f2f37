"""Memory, history and knowledge in Neo4j for agents of Microsoft Agent Framework."""

try:
    import agent_framework  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"adk_graph_memory.maf needs Microsoft Agent Framework ({error}): "
        'pip install "adk-graph-memory[agent-framework]"'
    ) from error

from adk_graph_memory.maf.history_provider import GraphHistoryProvider
from adk_graph_memory.maf.index_provider import Neo4jContextProvider
from adk_graph_memory.maf.memory_provider import GraphMemoryProvider

__all__ = ["GraphHistoryProvider", "GraphMemoryProvider", "Neo4jContextProvider"]
