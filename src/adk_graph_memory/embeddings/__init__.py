"""Embedders: texts go in, vectors come out, each model in a module of its own."""

from adk_graph_memory.embeddings.choice import Batching, Choice, FunctionEmbedder, TokenEmbedder
from adk_graph_memory.embeddings.gemini import GeminiEmbedder
from adk_graph_memory.embeddings.local import LocalEmbedder
from adk_graph_memory.embeddings.projection import Projection, QuestionTokens
from adk_graph_memory.embeddings.tokens import EmbeddedQuestion, TokenEncoder
from adk_graph_memory.embeddings.vectors import Vectors

__all__ = [
    "Batching",
    "Choice",
    "EmbeddedQuestion",
    "FunctionEmbedder",
    "GeminiEmbedder",
    "LocalEmbedder",
    "Projection",
]
__all__ += ["QuestionTokens", "TokenEmbedder", "TokenEncoder", "Vectors"]
