"""Allow requests by the names of hosts, as the MCP SDK checks them."""

from __future__ import annotations

from adk_graph_memory import errors
from adk_graph_memory.servers.access import LOOPBACK_NAMES

try:
    from mcp.server.transport_security import TransportSecuritySettings
except ImportError as error:
    raise errors.ExtraMissing(what="The MCP server", extra="mcp", reason=error) from error


def allow_hosts(*names: str) -> TransportSecuritySettings:
    """Allow requests under these names of hosts, besides those of this machine; any other may be a trick of a page."""
    hosts = [f"{host}{port}" for host in (*LOOPBACK_NAMES, *names) for port in ("", ":*")]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
