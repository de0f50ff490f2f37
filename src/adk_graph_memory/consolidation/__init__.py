"""What was extracted and what the graph holds go in; a plan of what to change comes out, by pure functions."""

from adk_graph_memory.consolidation.facts import direct, told_as
from adk_graph_memory.consolidation.plan import entity_keys, resolve, signatures

__all__ = ["direct", "entity_keys", "resolve", "signatures", "told_as"]
