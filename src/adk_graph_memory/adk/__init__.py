"""ADK's session, memory and artifact services on Neo4j, and the plugin that fills memory."""
