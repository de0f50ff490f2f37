"""Text comes in as it was said and goes out as it may be stored and sent: without secrets, or as the caller chose."""

from adk_graph_memory.redaction.redactor import NOTHING_LEFT, Choice, Function, Redactor
from adk_graph_memory.redaction.secrets import without_secrets

__all__ = ["NOTHING_LEFT", "Choice", "Function", "Redactor", "without_secrets"]
