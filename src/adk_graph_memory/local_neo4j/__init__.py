"""A real Neo4j on this machine without Docker: for tests and notebooks, or kept for a person between runs."""

from adk_graph_memory.local_neo4j.jars import Progress
from adk_graph_memory.local_neo4j.resident import RunningServer, down, status, up
from adk_graph_memory.local_neo4j.server import LocalNeo4j

__all__ = ["LocalNeo4j", "Progress", "RunningServer", "down", "status", "up"]
