"""The command line program ``adk-graph-memory``."""

# Help lists the commands in this order.
# isort: off
from adk_graph_memory.cli import server_commands
from adk_graph_memory.cli import conversation_commands
from adk_graph_memory.cli import memory_commands
from adk_graph_memory.cli import ingest_command
from adk_graph_memory.cli import demo_command

# isort: on
from adk_graph_memory.cli.application import app

__all__ = [
    "app",
    "conversation_commands",
    "demo_command",
    "ingest_command",
    "memory_commands",
    "server_commands",
]
