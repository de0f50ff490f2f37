"""Search an index that somebody else made; knows nothing of memory."""
