"""Give a memory to any agent that speaks the Model Context Protocol (MCP): tools that recall, explain and remember.

``make_mcp_server`` makes a server of the MCP SDK; ``adk-graph-memory mcp`` serves it on stdio or over HTTP. The extra
``mcp`` brings what it needs.
"""

from adk_graph_memory.servers.mcp.access import allow_hosts
from adk_graph_memory.servers.mcp.tools import make_mcp_server

__all__ = ["allow_hosts", "make_mcp_server"]
