"""Memory and knowledge for agents built with Microsoft Agent Framework, on Neo4j."""

try:
    import agent_framework
except ImportError as error:
    raise ImportError(
        'Microsoft Agent Framework is not installed: pip install "adk-graph-memory[agent-framework]"'
    ) from error

from adk_graph_memory.maf.index_provider import Neo4jContextProvider

__all__ = ["Neo4jContextProvider"]

del agent_framework
