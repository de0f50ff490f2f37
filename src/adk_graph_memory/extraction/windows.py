"""Turns go in; windows that a model can read at once come out, each beginning with the end of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adk_graph_memory.records import Turn, token_count


@dataclass(frozen=True, slots=True)
class Window:
    """Turns to read together; of these the first ``context`` were read before and only explain the rest."""

    turns: tuple[Turn, ...]
    context: int = 0


def windows(turns: Sequence[Turn], *, size: int, overlap: int = 4) -> list[Window]:
    """Windows of about ``size`` tokens over the turns; a longer turn is a window of its own.

    Args:
        turns: in the order they were said.
        size: tokens a window.
        overlap: turns of the window before that a window begins with.
    """
    found: list[Window] = []
    start, filled = 0, 0
    for i, turn in enumerate(turns):
        cost = token_count(turn.text)
        if i > start and filled + cost > size:
            found.append(_window(turns, start, i, overlap))
            start, filled = i, 0
        filled += cost
    if start < len(turns):
        found.append(_window(turns, start, len(turns), overlap))
    return found


def _window(turns: Sequence[Turn], start: int, end: int, overlap: int) -> Window:
    first = max(0, start - overlap)
    return Window(tuple(turns[first:end]), context=start - first)
