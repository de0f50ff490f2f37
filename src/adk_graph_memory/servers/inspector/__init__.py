"""Look into a memory in a browser: what it holds of one user, why, since when and where it came from.

``inspector`` makes a web application to mount beside an application's own, and ``operators_inspector`` one of all users
for an operator; ``adk-graph-memory inspect`` serves them on the loopback interface. The extra ``inspect`` brings what
they need.
"""

from adk_graph_memory.servers.inspector.application import inspector
from adk_graph_memory.servers.inspector.overview import operators_inspector
from adk_graph_memory.servers.inspector.visits import LocalAccess

__all__ = ["LocalAccess", "inspector", "operators_inspector"]
