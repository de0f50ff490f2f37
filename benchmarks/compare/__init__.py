"""Our services beside what else an agent built with ADK would use, on one machine, data set and embedder."""
