"""Redact text before it is stored or sent: secrets only, or with a function of the caller's."""

from adk_graph_memory.redaction.redactor import REDACTED_PLACEHOLDER, RedactFunction, RedactOption, Redactor
from adk_graph_memory.redaction.secrets import remove_secrets

__all__ = ["REDACTED_PLACEHOLDER", "RedactFunction", "RedactOption", "Redactor", "remove_secrets"]
