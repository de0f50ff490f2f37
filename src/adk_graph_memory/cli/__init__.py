"""The command line program ``adk-graph-memory``."""

# Help lists the commands in this order.
# isort: off
try:
    from adk_graph_memory.cli import server_commands
    from adk_graph_memory.cli import reembed_command
    from adk_graph_memory.cli import conversation_commands
    from adk_graph_memory.cli import memory_commands
    from adk_graph_memory.cli import history_commands
    from adk_graph_memory.cli import correction_commands
    from adk_graph_memory.cli import inspect_command
    from adk_graph_memory.cli import mcp_command
    from adk_graph_memory.cli import proposal_commands
    from adk_graph_memory.cli import review_commands
    from adk_graph_memory.cli import prune_command
    from adk_graph_memory.cli import doctor_command
    from adk_graph_memory.cli import ingest_command
    from adk_graph_memory.cli import reextract_command
    from adk_graph_memory.cli import export_command
    from adk_graph_memory.cli import export_html_command
    from adk_graph_memory.cli import import_command
    from adk_graph_memory.cli import demo_command
    from adk_graph_memory.cli.application import app
except KeyboardInterrupt:  # ADK takes seconds to import
    raise SystemExit(130) from None
# isort: on

__all__ = [
    "app",
    "conversation_commands",
    "correction_commands",
    "demo_command",
    "doctor_command",
    "export_command",
    "export_html_command",
    "history_commands",
    "import_command",
    "ingest_command",
    "inspect_command",
    "mcp_command",
    "memory_commands",
    "proposal_commands",
    "prune_command",
    "reembed_command",
    "reextract_command",
    "review_commands",
    "server_commands",
]
