"""A question goes in, the memories of one user that answer it come out, best first."""

from adk_graph_memory.retrieval.packing import packed
from adk_graph_memory.retrieval.ranking import Ranking
from adk_graph_memory.retrieval.reranking import RERANKED, CrossEncoderReranker, Reranker, rerank
from adk_graph_memory.retrieval.retriever import GraphMemoryRetriever
from adk_graph_memory.retrieval.rows import recollection
from adk_graph_memory.retrieval.weights import Weights

__all__ = ["RERANKED", "CrossEncoderReranker", "GraphMemoryRetriever", "Ranking", "Reranker", "Weights", "packed"]
__all__ += ["recollection", "rerank"]
