"""The modules that commands work with. Each is imported at its first use, so help imports none of them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any


class LazyModule:
    """Stands for a module until somebody asks for a name of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    import asyncio as asyncio

    import pydantic_core as pydantic_core
    from google.adk.sessions import base_session_service as base_session_service

    from adk_graph_memory import batches as batches
    from adk_graph_memory import consolidation as consolidation
    from adk_graph_memory import demo as demo
    from adk_graph_memory import embeddings as embeddings
    from adk_graph_memory import environment as environment
    from adk_graph_memory import histories as histories
    from adk_graph_memory import importing as importing
    from adk_graph_memory import inspector as inspector
    from adk_graph_memory import ledger as ledger
    from adk_graph_memory import local_neo4j as local_neo4j
    from adk_graph_memory import mcp_server as mcp_server
    from adk_graph_memory import ray_engine as ray_engine
    from adk_graph_memory import reembedding as reembedding
    from adk_graph_memory import reextraction as reextraction
    from adk_graph_memory import settings as settings
    from adk_graph_memory.adk import session_codec as session_codec
    from adk_graph_memory.adk import transcripts as transcripts
else:
    asyncio = LazyModule("asyncio")
    base_session_service = LazyModule("google.adk.sessions.base_session_service")
    batches = LazyModule("adk_graph_memory.batches")
    consolidation = LazyModule("adk_graph_memory.consolidation")
    demo = LazyModule("adk_graph_memory.demo")
    embeddings = LazyModule("adk_graph_memory.embeddings")
    environment = LazyModule("adk_graph_memory.environment")
    histories = LazyModule("adk_graph_memory.histories")
    importing = LazyModule("adk_graph_memory.importing")
    inspector = LazyModule("adk_graph_memory.inspector")
    ledger = LazyModule("adk_graph_memory.ledger")
    local_neo4j = LazyModule("adk_graph_memory.local_neo4j")
    mcp_server = LazyModule("adk_graph_memory.mcp_server")
    pydantic_core = LazyModule("pydantic_core")
    ray_engine = LazyModule("adk_graph_memory.ray_engine")
    reembedding = LazyModule("adk_graph_memory.reembedding")
    reextraction = LazyModule("adk_graph_memory.reextraction")
    session_codec = LazyModule("adk_graph_memory.adk.session_codec")
    settings = LazyModule("adk_graph_memory.settings")
    transcripts = LazyModule("adk_graph_memory.adk.transcripts")
