"""Graph memory for agents of Microsoft Agent Framework: context and history providers on Neo4j."""

try:
    import agent_framework  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"adk_graph_memory.maf needs Microsoft Agent Framework ({error}): "
        'pip install "adk-graph-memory[agent-framework]"'
    ) from error

from adk_graph_memory.maf.history_provider import GraphHistoryProvider
from adk_graph_memory.maf.memory_provider import GraphMemoryProvider

__all__ = ["GraphHistoryProvider", "GraphMemoryProvider"]
