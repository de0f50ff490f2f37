"""Web servers over a memory: the inspector, the MCP server and the HTTP service."""
