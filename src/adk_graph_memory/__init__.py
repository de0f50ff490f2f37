"""Graph memory for agents built with Google's ADK, on Neo4j."""

from adk_graph_memory.adk import Neo4jArtifactService, Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.extraction import Topic
from adk_graph_memory.local_neo4j import LocalNeo4j
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Filters, IngestReport, Receipt, Recollection, Statement, Turn
from adk_graph_memory.retrieval import CrossEncoderReranker, Reranker, Weights
from adk_graph_memory.settings import Settings

__all__ = [
    "CrossEncoderReranker",
    "Filters",
    "GraphMemory",
    "IngestReport",
    "LocalNeo4j",
    "Neo4jArtifactService",
    "Neo4jMemoryService",
    "Neo4jSessionService",
    "Receipt",
    "Recollection",
    "Reranker",
    "Settings",
    "Statement",
    "Topic",
    "Turn",
    "Weights",
]
