"""Read what the environment says beside the settings: where files lie, what is set at all, and slips in names."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Collection
from pathlib import Path

import platformdirs

logger = logging.getLogger(__name__)

PREFIX = "ADK_GRAPH_MEMORY_"
_NO_SETTINGS = frozenset(f"{PREFIX}{name}" for name in ("CACHE", "HOME", "NEO4J"))
"""Variables of the local server: where its files lie, and which version it is."""
_logged_names = set[str]()


def get_data_home() -> Path:
    """The user's directory for the local server: its jars, its store, its connection file."""
    if configured_home := os.environ.get(f"{PREFIX}HOME"):
        return Path(configured_home).expanduser().absolute()
    return platformdirs.user_data_path("adk-graph-memory", appauthor=False)


def get_connection_file() -> Path:
    """The file where ``adk-graph-memory up`` writes its server's uri, username and password (JSON, mode 600)."""
    return get_data_home() / "connection.json"


def get_server_version() -> str | None:
    """The server line or version that ADK_GRAPH_MEMORY_NEO4J asks for."""
    return os.environ.get(f"{PREFIX}NEO4J") or None


def is_variable_set(variable: str) -> bool:
    """Whether the environment variable is set and not empty."""
    return bool(os.environ.get(variable))


def is_text_captured() -> bool:
    """Whether spans may contain message text, by OpenTelemetry's GenAI variable, read as ADK reads it.

    ``true`` means ``EVENT_ONLY``: text in log events only, and memory emits none.
    """
    mode = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "")
    return mode.strip().upper() in ("SPAN_ONLY", "SPAN_AND_EVENT")


def log_unknown_names(known_names: Collection[str]) -> None:
    """Log each variable that looks like a setting and is none, once: a slip would silently leave the default."""
    known = sorted(_NO_SETTINGS.union(name for name in known_names if name.startswith(PREFIX)))
    set_names = {name.upper() for name in os.environ if name.upper().startswith(PREFIX)}
    for name in sorted(set_names.difference(known, _logged_names)):
        _logged_names.add(name)
        nearest = difflib.get_close_matches(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in known], n=1)
        hint = f"did you mean {PREFIX}{nearest[0]}?" if nearest else "see docs/configuration.md"
        logger.warning("%s is no setting and changes nothing: %s", name, hint)
