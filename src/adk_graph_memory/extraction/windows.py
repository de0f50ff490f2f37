"""Split a session into windows that fit one model call."""

from __future__ import annotations

from collections.abc import Sequence

from adk_graph_memory.records import Turn, count_tokens


def split_into_windows(turns: Sequence[Turn], *, size: int) -> list[tuple[Turn, ...]]:
    """Split the turns, in order, into windows of at most ``size`` tokens; a longer turn gets a window of its own."""
    windows: list[list[Turn]] = []
    used = 0
    for turn in turns:
        tokens = count_tokens(turn.text)
        if not windows or used + tokens > size:
            windows.append([])
            used = 0
        windows[-1].append(turn)
        used += tokens
    return [tuple(window) for window in windows]
