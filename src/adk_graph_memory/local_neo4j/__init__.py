"""Run a real Neo4j on this machine without Docker, for tests and notebooks or as a persistent server."""

from adk_graph_memory.local_neo4j.jars import ProgressCallback
from adk_graph_memory.local_neo4j.persistent_server import RunningServer, find_running_server, start_server, stop_server
from adk_graph_memory.local_neo4j.server import LocalNeo4j

__all__ = ["LocalNeo4j", "ProgressCallback", "RunningServer", "find_running_server", "start_server", "stop_server"]
