"""Graph memory for agents built with Google's ADK, on Neo4j.

A name is imported at its first use: ``import adk_graph_memory`` alone loads neither ADK nor Neo4j's driver.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "AsOf",
    "CrossEncoderReranker",
    "Filters",
    "GeminiEmbedder",
    "GraphMemory",
    "GraphMemoryPlugin",
    "GuardCandidate",
    "GuardVerdict",
    "IndexRetrieval",
    "IngestReport",
    "LightEmbedder",
    "Limits",
    "LoadProfileTool",
    "LocalEmbedder",
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
    "UserMemory",
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
    from adk_graph_memory.adk.profile import LoadProfileTool, load_profile
    from adk_graph_memory.adk.registry import register
    from adk_graph_memory.adk.session_service import Neo4jSessionService
    from adk_graph_memory.extraction.vocabulary import Topic
    from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j
    from adk_graph_memory.memory.graph_memory import GraphMemory
    from adk_graph_memory.memory.user_memory import UserMemory
    from adk_graph_memory.models.gemini import GeminiEmbedder
    from adk_graph_memory.models.light import LightEmbedder
    from adk_graph_memory.models.local import LocalEmbedder
    from adk_graph_memory.records.facts import AsOf
    from adk_graph_memory.records.history import GuardCandidate, GuardVerdict
    from adk_graph_memory.records.results import Filters, IngestReport, Profile, PruneReport, Receipt, Recollection
    from adk_graph_memory.records.scopes import SharedMemory
    from adk_graph_memory.records.turns import Statement, Turn
    from adk_graph_memory.retrieval.own_index.search import IndexRetrieval
    from adk_graph_memory.retrieval.reranking import CrossEncoderReranker, Reranker
    from adk_graph_memory.retrieval.weights import Weights
    from adk_graph_memory.runtime.settings import Limits, Settings

    __version__: str
else:
    _MODULES = {
        "adk_graph_memory.adk.artifact_service": ("Neo4jArtifactService",),
        "adk_graph_memory.adk.index_service": ("Neo4jIndexService",),
        "adk_graph_memory.adk.memory_service": ("Neo4jMemoryService",),
        "adk_graph_memory.adk.plugin": ("GraphMemoryPlugin",),
        "adk_graph_memory.adk.profile": (
            "LoadProfileTool",
            "load_profile",
        ),
        "adk_graph_memory.adk.registry": ("register",),
        "adk_graph_memory.adk.session_service": ("Neo4jSessionService",),
        "adk_graph_memory.extraction.vocabulary": ("Topic",),
        "adk_graph_memory.graph.local_neo4j.server": ("LocalNeo4j",),
        "adk_graph_memory.memory.graph_memory": ("GraphMemory",),
        "adk_graph_memory.memory.user_memory": ("UserMemory",),
        "adk_graph_memory.models.gemini": ("GeminiEmbedder",),
        "adk_graph_memory.models.light": ("LightEmbedder",),
        "adk_graph_memory.models.local": ("LocalEmbedder",),
        "adk_graph_memory.records.facts": ("AsOf",),
        "adk_graph_memory.records.history": (
            "GuardCandidate",
            "GuardVerdict",
        ),
        "adk_graph_memory.records.results": (
            "Filters",
            "IngestReport",
            "Profile",
            "PruneReport",
            "Receipt",
            "Recollection",
        ),
        "adk_graph_memory.records.scopes": ("SharedMemory",),
        "adk_graph_memory.records.turns": (
            "Statement",
            "Turn",
        ),
        "adk_graph_memory.retrieval.own_index.search": ("IndexRetrieval",),
        "adk_graph_memory.retrieval.reranking": (
            "CrossEncoderReranker",
            "Reranker",
        ),
        "adk_graph_memory.retrieval.weights": ("Weights",),
        "adk_graph_memory.runtime.settings": (
            "Limits",
            "Settings",
        ),
    }
    _HOMES = {name: module for module, names in _MODULES.items() for name in names}

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version

            return version("adk-graph-memory")
        if name in _HOMES:
            value = globals()[name] = getattr(import_module(_HOMES[name]), name)
            return value
        try:
            return import_module(f"adk_graph_memory.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"adk_graph_memory.{name}":
                raise
            raise AttributeError(f"module 'adk_graph_memory' has no attribute {name!r}") from error

    def __dir__():
        return [*globals(), *__all__]
