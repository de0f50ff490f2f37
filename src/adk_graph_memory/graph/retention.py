"""Make the parameters by which a statement leaves out what has expired."""

from __future__ import annotations

import time
from typing import Any

from adk_graph_memory.settings import Settings

RETENTION = "retention"
"""The parameter that says what has expired; statements get it without being given it."""
PERIODS = ("session_ttl", "event_ttl", "memory_ttl", "revision_ttl", "artifact_ttl", "user_state_ttl")


def make_retention(settings: Settings, older_than: float | None = None) -> dict[str, Any]:
    """Make the value of ``$retention``: the time now (epoch seconds) and the settings' periods, None for no end.

    Args:
        settings: the deployment's settings.
        older_than: seconds; for pruning alone: what is older has expired too, whatever its own expiry.
    """
    periods = {name: getattr(settings, name) for name in PERIODS}
    return {"now": time.time(), "older_than": older_than, **periods}
