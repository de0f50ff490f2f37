"""Draw when each fact held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from adk_graph_memory.records.results import StoredEntity, StoredFact

from .look import (
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    INK,
    PALE,
    PAPER,
    RED,
    RULE,
    TYPE_COLORS,
    list_types,
    name_row,
    name_value,
    tint,
)

DAYS_PER_LETTER = 2.7
"""In a drawing of a year."""
UNKNOWN_DAYS = 30.0
"""The length of a bar of which only the end is known."""


def draw_timeline(
    facts: Iterable[StoredFact],
    entities: Iterable[StoredEntity],
    rows: Sequence[tuple[str, str]],
    *,
    title: str,
    until: datetime,
    captions: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a bar for each fact from the day it began to the day it ended, and a row for each subject and predicate.

    Args:
        facts: all of them; denials, and what only happened once, are left out.
        entities: tell the types, and with them the colors, of the facts' objects.
        rows: subjects and predicates, from top to bottom.
        title: stands above the drawing.
        until: the right end; what has not ended goes on behind it.
        captions: what to call an entity whose name would not tell a reader who it is.
    """
    captions, types = captions or {}, list_types(entities)
    groups = {row: list[StoredFact]() for row in rows}
    for fact in facts:
        is_shown = fact.modality != "negated" and fact.status not in ("happened", "lapsed")
        if is_shown and (fact.subject, fact.predicate) in groups:
            groups[fact.subject, fact.predicate].append(fact)
    bars = {row: [_make_bar(fact, until, captions, types) for fact in group] for row, group in groups.items()}
    lanes = [(row, lane) for row, group in bars.items() for lane in _stack_lanes(group)]
    figure, axes = plt.subplots(figsize=(13, 1.9 + 0.42 * len(lanes)))
    for y, (_, lane) in enumerate(lanes):
        for bar in lane:
            _draw_bar(axes, y, bar)
    _label_rows(axes, [name_row(*row, captions) for row, _ in lanes])
    axes.set_title(title)
    _draw_timeline_key(axes, lanes)
    figure.tight_layout()
    return figure


@dataclass(frozen=True)
class Bar:
    """A fact on the timeline, its ends in days, and what is written on it."""

    fact: StoredFact
    start: float
    end: float
    color: str
    text: str

    @property
    def is_plan(self) -> bool:
        """Whether nobody says that it came true."""
        return self.fact.modality != "asserted"

    @property
    def is_too_short(self) -> bool:
        """Whether the text has to stand behind the bar."""
        return self.end - self.start < DAYS_PER_LETTER * (len(self.text) + 1)

    @property
    def room(self) -> float:
        """Where the bar ends, or the text behind it."""
        return self.end + DAYS_PER_LETTER * (len(self.text) + 2) if self.is_too_short else self.end


def _make_bar(fact: StoredFact, until: datetime, captions: Mapping[str, str], types: Mapping[str, str]) -> Bar:
    start, end = mdates.date2num(fact.valid_from or fact.at), mdates.date2num(fact.valid_to or until)
    note = " (planned)" if fact.modality != "asserted" else " (never true)" if fact.state == "retracted" else ""
    color = TYPE_COLORS[types.get(fact.object, "other")] if fact.object else GREEN
    start = start if start < end else end - UNKNOWN_DAYS  # it was over when it was first said
    return Bar(fact, start, end, color, name_value(fact, captions) + note)


def _stack_lanes(bars: Iterable[Bar]) -> list[list[Bar]]:
    """Put bars that overlap below each other."""
    lanes: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: (bar.is_plan, bar.start)):
        lane = next((lane for lane in lanes if lane[-1].room <= bar.start + 1), None)
        if lane is None:
            lanes.append([bar])
        else:
            lane.append(bar)
    return lanes


def _draw_bar(axes: Axes, y: int, bar: Bar) -> None:
    fact, color = bar.fact, bar.color
    style = {"facecolor": tint(color, 0.55), "edgecolor": color}
    if fact.state == "retracted":
        style = {"facecolor": PAPER, "edgecolor": tint(RED, 0.6), "hatch": "///"}
    elif bar.is_plan:
        style = {"facecolor": PAPER, "edgecolor": color, "linestyle": DASHED}
    elif not fact.holds:
        style = {"facecolor": tint(color, 0.18), "edgecolor": tint(color, 0.5)}
    axes.barh(y, bar.end - bar.start, left=bar.start, height=0.66, linewidth=1.1, **style)
    if fact.holds and fact.valid_to is None:
        axes.plot([bar.end], [y], marker=">", color=color, markersize=9, clip_on=False, zorder=4)
    if fact.valid_from is None:
        axes.plot([bar.start - 10, bar.start - 1], [y, y], color=color, lw=1.6, ls=DOTTED, zorder=0.5)
    box = {"boxstyle": "round,pad=0.2", "facecolor": PAPER, "edgecolor": "none"} if fact.state == "retracted" else None
    font = {"fontsize": 9, "color": INK if fact.holds else PALE, "bbox": box}
    x = bar.end if bar.is_too_short else bar.start
    axes.annotate(bar.text, (x, y), (6, 0), textcoords="offset points", va="center", **font)


def _label_rows(axes: Axes, names: Sequence[str]) -> None:
    starts = [y for y, name in enumerate(names) if y == 0 or names[y - 1] != name]
    axes.set_yticks(starts, [names[y] for y in starts], fontsize=10.5)
    for y in starts[1:]:
        axes.axhline(y - 0.5, color=RULE, lw=1, zorder=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.xaxis.set_major_locator(mdates.MonthLocator())
    axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(mdates.MonthLocator(), show_offset=False))
    axes.grid(axis="x")


def _draw_timeline_key(axes: Axes, lanes: Sequence[tuple[tuple[str, str], list[Bar]]]) -> None:
    bars = [bar for _, lane in lanes for bar in lane]
    keys = [
        Patch(facecolor=tint(GREY, 0.7), edgecolor=GREY, label="holds"),
        Patch(facecolor=tint(GREY, 0.2), edgecolor=tint(GREY, 0.6), label="has ended"),
    ]
    if any(bar.is_plan for bar in bars):
        keys.append(Patch(facecolor=PAPER, edgecolor=GREY, linestyle=DASHED, label="was planned"))
    if any(bar.fact.state == "retracted" for bar in bars):
        keys.append(Patch(facecolor=PAPER, edgecolor=tint(RED, 0.6), hatch="///", label="was never true"))
    keys.append(Line2D([], [], color=GREY, lw=1.6, ls=DOTTED, label="nobody said when it began"))
    axes.legend(handles=keys, ncols=len(keys), loc="upper center", bbox_to_anchor=(0.45, -0.06))
