"""Embed texts with any embedder: one on this machine, a hosted one, or a caller's own."""

from adk_graph_memory.embeddings.adapter import EmbedderAdapter, EmbedderChoice, check_choice
from adk_graph_memory.embeddings.gemini import GeminiEmbedder
from adk_graph_memory.embeddings.light import LightEmbedder
from adk_graph_memory.embeddings.local import LocalEmbedder
from adk_graph_memory.embeddings.projection import Projection, QuestionTokens
from adk_graph_memory.embeddings.token_encoder import QuestionEmbedding, TokenEncoder

__all__ = [
    "EmbedderAdapter",
    "EmbedderChoice",
    "GeminiEmbedder",
    "LightEmbedder",
    "LocalEmbedder",
    "Projection",
    "QuestionEmbedding",
    "QuestionTokens",
    "TokenEncoder",
    "check_choice",
]
