"""Web servers over a memory: the inspector and the MCP server."""
