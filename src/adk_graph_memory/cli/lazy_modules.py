"""The modules that commands work with. Each is imported at its first use, so help imports none of them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any


class LazyModule:
    """Stands for a module until somebody asks for a name of it.

    Args:
        name: the module's.
        loads_driver: whether it is what loads Neo4j's driver.
    """

    def __init__(self, name: str, *, loads_driver: bool = False) -> None:
        self._name, self._context = name, hide_table_libraries if loads_driver else nullcontext

    def __getattr__(self, name: str) -> Any:
        with self._context():
            return getattr(import_module(self._name), name)


@contextmanager
def hide_table_libraries() -> Iterator[None]:
    """Let imports find neither pandas nor pyarrow for the length of the block, unless they are loaded already.

    Neo4j's driver imports them where they are installed, for results that no command asks for; that takes most of what
    the driver takes.
    """
    hidden = [name for name in ("pandas", "pyarrow") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is an ImportError for who imports it
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


__all__ = [
    "asyncio",
    "base_session_service",
    "batches",
    "chat_forms",
    "chat_messages",
    "chat_tables",
    "connections",
    "conversations",
    "embedders",
    "environment",
    "erasing",
    "fact_rules",
    "graph_listings",
    "graph_reembed",
    "graph_sessions",
    "histories",
    "hosts",
    "http_server",
    "import_records",
    "importer",
    "ingest_queue",
    "inspector",
    "listings",
    "mcp_server",
    "persistent",
    "playback",
    "pydantic_core",
    "ray_engine",
    "recorded_replies",
    "reembedding",
    "reextraction",
    "schema",
    "server_health",
    "session_codec",
    "settings",
    "speakers",
    "tokens",
    "transcripts",
]

if TYPE_CHECKING:
    import asyncio as asyncio

    import pydantic_core as pydantic_core
    from google.adk.sessions import base_session_service as base_session_service

    from adk_graph_memory.adk import session_codec as session_codec
    from adk_graph_memory.adk.importing import importer as importer
    from adk_graph_memory.adk.importing import records as import_records
    from adk_graph_memory.adk.importing import transcripts as transcripts
    from adk_graph_memory.adk.importing.chats import forms as chat_forms
    from adk_graph_memory.adk.importing.chats import messages as chat_messages
    from adk_graph_memory.adk.importing.chats import tables as chat_tables
    from adk_graph_memory.cli.demo import conversation as conversations
    from adk_graph_memory.cli.demo import playback as playback
    from adk_graph_memory.cli.demo import recorded_replies as recorded_replies
    from adk_graph_memory.consolidation import fact_rules as fact_rules
    from adk_graph_memory.graph import connection as connections
    from adk_graph_memory.graph import erasing as erasing
    from adk_graph_memory.graph import ingest_queue as ingest_queue
    from adk_graph_memory.graph import listings as graph_listings
    from adk_graph_memory.graph import reembed as graph_reembed
    from adk_graph_memory.graph import schema as schema
    from adk_graph_memory.graph import sessions as graph_sessions
    from adk_graph_memory.graph import speakers as speakers
    from adk_graph_memory.graph.local_neo4j import persistent as persistent
    from adk_graph_memory.memory import histories as histories
    from adk_graph_memory.memory import listings as listings
    from adk_graph_memory.memory import reextraction as reextraction
    from adk_graph_memory.memory.jobs import batches as batches
    from adk_graph_memory.memory.jobs import ray_engine as ray_engine
    from adk_graph_memory.memory.jobs import reembedding as reembedding
    from adk_graph_memory.models import embedder as embedders
    from adk_graph_memory.runtime import environment as environment
    from adk_graph_memory.runtime import settings as settings
    from adk_graph_memory.servers import health as server_health
    from adk_graph_memory.servers import hosts as hosts
    from adk_graph_memory.servers import http as http_server
    from adk_graph_memory.servers import inspector as inspector
    from adk_graph_memory.servers import mcp as mcp_server
    from adk_graph_memory.servers import tokens as tokens
else:
    asyncio = LazyModule("asyncio")
    pydantic_core = LazyModule("pydantic_core")
    base_session_service = LazyModule("google.adk.sessions.base_session_service")
    batches = LazyModule("adk_graph_memory.memory.jobs.batches")
    chat_forms = LazyModule("adk_graph_memory.adk.importing.chats.forms")
    chat_messages = LazyModule("adk_graph_memory.adk.importing.chats.messages")
    chat_tables = LazyModule("adk_graph_memory.adk.importing.chats.tables")
    connections = LazyModule("adk_graph_memory.graph.connection", loads_driver=True)
    conversations = LazyModule("adk_graph_memory.cli.demo.conversation")
    embedders = LazyModule("adk_graph_memory.models.embedder")
    environment = LazyModule("adk_graph_memory.runtime.environment")
    erasing = LazyModule("adk_graph_memory.graph.erasing")
    fact_rules = LazyModule("adk_graph_memory.consolidation.fact_rules")
    graph_listings = LazyModule("adk_graph_memory.graph.listings")
    graph_reembed = LazyModule("adk_graph_memory.graph.reembed")
    graph_sessions = LazyModule("adk_graph_memory.graph.sessions")
    hosts = LazyModule("adk_graph_memory.servers.hosts")
    http_server = LazyModule("adk_graph_memory.servers.http")
    import_records = LazyModule("adk_graph_memory.adk.importing.records")
    importer = LazyModule("adk_graph_memory.adk.importing.importer")
    ingest_queue = LazyModule("adk_graph_memory.graph.ingest_queue")
    inspector = LazyModule("adk_graph_memory.servers.inspector")
    listings = LazyModule("adk_graph_memory.memory.listings")
    histories = LazyModule("adk_graph_memory.memory.histories")
    mcp_server = LazyModule("adk_graph_memory.servers.mcp")
    persistent = LazyModule("adk_graph_memory.graph.local_neo4j.persistent")
    playback = LazyModule("adk_graph_memory.cli.demo.playback")
    ray_engine = LazyModule("adk_graph_memory.memory.jobs.ray_engine")
    recorded_replies = LazyModule("adk_graph_memory.cli.demo.recorded_replies")
    reembedding = LazyModule("adk_graph_memory.memory.jobs.reembedding")
    reextraction = LazyModule("adk_graph_memory.memory.reextraction")
    schema = LazyModule("adk_graph_memory.graph.schema")
    server_health = LazyModule("adk_graph_memory.servers.health")
    session_codec = LazyModule("adk_graph_memory.adk.session_codec")
    settings = LazyModule("adk_graph_memory.runtime.settings")
    speakers = LazyModule("adk_graph_memory.graph.speakers")
    tokens = LazyModule("adk_graph_memory.servers.tokens")
    transcripts = LazyModule("adk_graph_memory.adk.importing.transcripts")
