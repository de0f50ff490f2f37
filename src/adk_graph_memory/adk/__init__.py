"""ADK's session, memory and artifact services on Neo4j, and the plugin that fills memory."""

from adk_graph_memory.adk.artifact_service import Neo4jArtifactService
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.plugin import GraphMemoryPlugin
from adk_graph_memory.adk.registry import register
from adk_graph_memory.adk.session_service import ListEventsResponse, Neo4jSessionService

__all__ = [
    "GraphMemoryPlugin",
    "ListEventsResponse",
    "Neo4jArtifactService",
    "Neo4jMemoryService",
    "Neo4jSessionService",
    "register",
]
