"""Embedders: texts go in, vectors come out, each model in a module of its own."""

from adk_graph_memory.embeddings.gemini import GeminiEmbedder
from adk_graph_memory.embeddings.local import LocalEmbedder
from adk_graph_memory.embeddings.vectors import Batching, Choice, FunctionEmbedder, Vectors

__all__ = ["Batching", "Choice", "FunctionEmbedder", "GeminiEmbedder", "LocalEmbedder", "Vectors"]
