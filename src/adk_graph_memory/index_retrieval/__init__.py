"""Search any vector or full-text index of a Neo4j database, whoever made it; it needs no memory, and only reads."""

from adk_graph_memory.index_retrieval.fulltext_retriever import FulltextRetriever
from adk_graph_memory.index_retrieval.index_search import IndexOptions, IndexRetrieval, IndexType, choose_retrieval
from adk_graph_memory.index_retrieval.index_settings import IndexSettings
from adk_graph_memory.index_retrieval.result_format import IndexHit

__all__ = ["FulltextRetriever", "IndexHit", "IndexOptions", "IndexRetrieval", "IndexSettings", "IndexType"]
__all__ += ["choose_retrieval"]
