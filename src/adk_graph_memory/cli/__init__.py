"""``adk-graph-memory`` at the command line: words go in, the rooms do the work, people read what comes out."""

from adk_graph_memory.cli import server, sessions, artifacts, ingestion, knowledge, memories, demo  # isort: skip  # help lists them in this order
from adk_graph_memory.cli.application import app

__all__ = ["app", "artifacts", "demo", "ingestion", "knowledge", "memories", "server", "sessions"]
