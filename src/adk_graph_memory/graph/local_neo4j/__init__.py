"""Run a real Neo4j on this machine without Docker."""
