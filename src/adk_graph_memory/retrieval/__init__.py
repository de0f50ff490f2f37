"""Answer a question from one user's memories: find candidates, score them, and pack the best for a prompt."""

from adk_graph_memory.retrieval.packing import pack_recollections
from adk_graph_memory.retrieval.plain_search import list_planned_searches
from adk_graph_memory.retrieval.question import ParsedQuestion
from adk_graph_memory.retrieval.ranking import Ranking
from adk_graph_memory.retrieval.recollections import make_recollection
from adk_graph_memory.retrieval.reranking import RERANK_LIMIT, CrossEncoderReranker, Reranker, rerank_recollections
from adk_graph_memory.retrieval.retriever import GraphMemoryRetriever
from adk_graph_memory.retrieval.weights import Weights

__all__ = [
    "RERANK_LIMIT",
    "CrossEncoderReranker",
    "GraphMemoryRetriever",
    "ParsedQuestion",
    "Ranking",
    "Reranker",
    "Weights",
    "pack_recollections",
]
__all__ += ["list_planned_searches", "make_recollection", "rerank_recollections"]
