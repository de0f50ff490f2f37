"""ADK's session, memory and artifact services on Neo4j, and the plugin that fills memory.

Import them from ``adk_graph_memory``; this package imports none of them, so that each costs only what it needs.
"""
