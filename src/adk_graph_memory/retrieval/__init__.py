"""A question goes in, the memories of one user that answer it come out, best first."""

from adk_graph_memory.retrieval.packing import packed
from adk_graph_memory.retrieval.question import understood
from adk_graph_memory.retrieval.retriever import GraphMemoryRetriever
from adk_graph_memory.retrieval.rows import recollection

__all__ = ["GraphMemoryRetriever", "packed", "recollection", "understood"]
