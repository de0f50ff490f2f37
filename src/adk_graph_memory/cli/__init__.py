"""The command line program ``adk-graph-memory``."""

from adk_graph_memory.cli import (
    artifact_commands,
    demo_command,
    ingest_command,
    knowledge_commands,
    memory_commands,
    server_commands,
    session_commands,
)  # isort: skip  # help lists them in this order
from adk_graph_memory.cli.application import app

__all__ = [
    "app",
    "artifact_commands",
    "demo_command",
    "ingest_command",
    "knowledge_commands",
    "memory_commands",
    "server_commands",
    "session_commands",
]
