"""The command line program ``adk-graph-memory``.

Help takes no longer than Typer does: the module of a command is imported when that command is asked for, and none of
them imports what its commands work with (:mod:`adk_graph_memory.cli.lazy_modules`).
"""

from adk_graph_memory.cli.application import app

__all__ = ["app"]
