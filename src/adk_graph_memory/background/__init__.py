"""Fill memory behind the replies: buffer what is said, queue it in the graph, and ingest the queue in a thread.

Both frameworks' doors use it: ADK's plugin and Agent Framework's provider.
"""

from adk_graph_memory.background.memory_queue import MemoryQueue
from adk_graph_memory.background.turn_buffer import MemoryUser, SessionKey

__all__ = ["MemoryQueue", "MemoryUser", "SessionKey"]
