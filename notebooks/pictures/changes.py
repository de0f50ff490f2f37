"""Draw what changed between two dates."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from adk_graph_memory.records.results import StoredEntity, StoredFact

from .look import DOTTED, GREEN, INK, PALE, PAPER, RED, RULE, TYPE_COLORS, list_types, name_row, name_value, tint


def draw_changes(
    changes: Mapping[tuple[str, str], tuple[Sequence[StoredFact], Sequence[StoredFact]]],
    entities: Iterable[StoredEntity],
    dates: tuple[datetime, datetime],
    *,
    title: str,
    captions: Mapping[str, str] | None = None,
) -> Figure:
    """Draw for each subject and predicate what held at the first date, and what held in its place at the second.

    Args:
        changes: the facts that ended and those that began, by subject and predicate.
        entities: tell the types, and with them the colors, of the facts' objects.
        dates: the two dates.
        title: stands above the drawing.
        captions: what to call an entity whose name would not tell a reader who it is.
    """
    captions, types = captions or {}, list_types(entities)
    figure, axes = plt.subplots(figsize=(13, 1.1 + 0.5 * len(changes)))
    for y, ((subject, predicate), (ended, began)) in enumerate(changes.items()):
        axes.text(0.27, y, name_row(subject, predicate, captions), ha="right", va="center", fontsize=10.5)
        left = _draw_values(axes, 0.3, y, ended, captions, types)
        right = _draw_values(axes, 0.68, y, began, captions, types)
        if left and right:
            arrow = {"arrowstyle": "-|>", "color": PALE, "patchA": left.get_bbox_patch(), "shrinkA": 6, "shrinkB": 6}
            axes.annotate("", (0.675, y), (0.3, y), arrowprops=arrow)
        axes.axhline(y + 0.5, color=RULE, lw=1)
    for x, date in zip((0.3, 0.68), dates, strict=True):
        axes.text(x, -0.85, f"{date.day} {date:%B %Y}", color=PALE, weight="bold", va="center")
    axes.set(xlim=(0, 1), ylim=(len(changes) - 0.4, -1.2), title=title)
    axes.axis("off")
    figure.tight_layout()
    return figure


def _draw_values(
    axes: Axes,
    x: float,
    y: int,
    facts: Sequence[StoredFact],
    captions: Mapping[str, str],
    types: Mapping[str | None, str],
) -> Text | None:
    if not facts:
        return None
    text = " / ".join(dict.fromkeys(name_value(fact, captions) for fact in facts))
    color = TYPE_COLORS[types.get(facts[0].object, "other")] if facts[0].object else GREEN
    is_current = any(fact.holds for fact in facts)
    box = {"facecolor": tint(color, 0.5), "edgecolor": color, "boxstyle": "round,pad=0.35"}
    if not is_current:
        box |= {"facecolor": tint(color, 0.15), "edgecolor": tint(color, 0.55)}
    if all(fact.state == "retracted" for fact in facts):
        text, box = f"{text} (never true)", box | {"facecolor": PAPER, "edgecolor": RED, "linestyle": DOTTED}
    font = {"fontsize": 10, "color": INK if is_current else PALE}
    return axes.text(x, y, textwrap.shorten(text, 44, placeholder="…"), va="center", bbox=box, **font)
