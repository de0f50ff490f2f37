"""Text comes in as it was said and goes out as it may be stored and sent: without secrets, or as the caller chose."""

from adk_graph_memory.redaction.redactor import REDACTED_PLACEHOLDER, RedactFunction, RedactOption, Redactor
from adk_graph_memory.redaction.secrets import remove_secrets

__all__ = ["REDACTED_PLACEHOLDER", "RedactFunction", "RedactOption", "Redactor", "remove_secrets"]
