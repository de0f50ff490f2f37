"""Graph memory for agents built with Google's ADK, on Neo4j.

A name is imported at its first use: ``import adk_graph_memory`` alone loads neither ADK nor Neo4j's driver.
"""

from typing import TYPE_CHECKING

from adk_graph_memory.lazy_names import import_at_use

__all__ = [
    "AsOf",
    "CrossEncoderReranker",
    "Filters",
    "GeminiEmbedder",
    "GraphMemory",
    "GraphMemoryPlugin",
    "IndexRetrieval",
    "IngestReport",
    "LightEmbedder",
    "Limits",
    "LoadProfileTool",
    "LocalNeo4j",
    "Neo4jArtifactService",
    "Neo4jIndexService",
    "Neo4jMemoryService",
    "Neo4jSessionService",
    "Profile",
    "PruneReport",
    "Receipt",
    "Recollection",
    "Reranker",
    "Settings",
    "SharedMemory",
    "Statement",
    "Topic",
    "Turn",
    "Weights",
    "__version__",
    "load_profile",
    "register",
]

if TYPE_CHECKING:
    from adk_graph_memory.adk.artifact_service import Neo4jArtifactService
    from adk_graph_memory.adk.index_service import Neo4jIndexService
    from adk_graph_memory.adk.memory_service import Neo4jMemoryService
    from adk_graph_memory.adk.plugin import GraphMemoryPlugin
    from adk_graph_memory.adk.profile_tool import LoadProfileTool, load_profile
    from adk_graph_memory.adk.registry import register
    from adk_graph_memory.adk.session_service import Neo4jSessionService
    from adk_graph_memory.embeddings import GeminiEmbedder, LightEmbedder
    from adk_graph_memory.extraction import Topic
    from adk_graph_memory.index_retrieval import IndexRetrieval
    from adk_graph_memory.local_neo4j import LocalNeo4j
    from adk_graph_memory.memory import GraphMemory
    from adk_graph_memory.records import (
        AsOf,
        Filters,
        IngestReport,
        Profile,
        PruneReport,
        Receipt,
        Recollection,
        SharedMemory,
        Statement,
        Turn,
    )
    from adk_graph_memory.retrieval import CrossEncoderReranker, Reranker, Weights
    from adk_graph_memory.settings import Limits, Settings

    __version__: str
else:
    _NAMES = {
        "adk_graph_memory.adk.artifact_service": ("Neo4jArtifactService",),
        "adk_graph_memory.adk.index_service": ("Neo4jIndexService",),
        "adk_graph_memory.adk.memory_service": ("Neo4jMemoryService",),
        "adk_graph_memory.adk.plugin": ("GraphMemoryPlugin",),
        "adk_graph_memory.adk.profile_tool": ("LoadProfileTool", "load_profile"),
        "adk_graph_memory.adk.registry": ("register",),
        "adk_graph_memory.adk.session_service": ("Neo4jSessionService",),
        "adk_graph_memory.embeddings": ("GeminiEmbedder", "LightEmbedder"),
        "adk_graph_memory.extraction": ("Topic",),
        "adk_graph_memory.index_retrieval": ("IndexRetrieval",),
        "adk_graph_memory.local_neo4j": ("LocalNeo4j",),
        "adk_graph_memory.memory": ("GraphMemory",),
        "adk_graph_memory.records": (
            "AsOf",
            "Filters",
            "IngestReport",
            "Profile",
            "PruneReport",
            "Receipt",
            "Recollection",
            "SharedMemory",
            "Statement",
            "Turn",
        ),
        "adk_graph_memory.retrieval": ("CrossEncoderReranker", "Reranker", "Weights"),
        "adk_graph_memory.settings": ("Limits", "Settings"),
    }

    _import_name = import_at_use(__name__, _NAMES)

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version

            return version("adk-graph-memory")
        return _import_name(name)

    def __dir__():
        return [*globals(), *__all__]
