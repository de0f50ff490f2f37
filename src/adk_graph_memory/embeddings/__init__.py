"""Embed texts with any embedder: one on this machine, a hosted one, or a caller's own."""

from adk_graph_memory.embeddings.adapter import EmbedderAdapter
from adk_graph_memory.embeddings.embedders import BatchEmbedder, EmbedderChoice, FunctionEmbedder, TokenEmbedder
from adk_graph_memory.embeddings.gemini import GeminiEmbedder
from adk_graph_memory.embeddings.local import LocalEmbedder
from adk_graph_memory.embeddings.projection import Projection, QuestionTokens
from adk_graph_memory.embeddings.token_encoder import QuestionEmbedding, TokenEncoder

__all__ = [
    "BatchEmbedder",
    "EmbedderChoice",
    "FunctionEmbedder",
    "GeminiEmbedder",
    "LocalEmbedder",
    "Projection",
    "QuestionEmbedding",
]
__all__ += ["EmbedderAdapter", "QuestionTokens", "TokenEmbedder", "TokenEncoder"]
