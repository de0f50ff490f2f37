"""Turns go in; windows that a model can read at once come out."""

from __future__ import annotations

from collections.abc import Sequence

from adk_graph_memory.records import Turn, count_tokens


def split_into_windows(turns: Sequence[Turn], *, size: int) -> list[tuple[Turn, ...]]:
    """Windows of about ``size`` tokens over the turns, in their order; a longer turn is a window of its own."""
    found: list[list[Turn]] = []
    filled = 0
    for turn in turns:
        cost = count_tokens(turn.text)
        if not found or filled + cost > size:
            found.append([])
            filled = 0
        found[-1].append(turn)
        filled += cost
    return [tuple(window) for window in found]
