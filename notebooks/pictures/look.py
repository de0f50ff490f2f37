"""The look of all pictures: color by type, faded what has ended, crossed out what was never true.

The colors are those of Okabe and Ito, which colour-blind readers can tell apart.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb

from adk_graph_memory.records.results import StoredEntity, StoredFact

INK, PALE, LINE, RULE, PAPER = "#1f2933", "#6b7785", "#c9d1d9", "#eef1f4", "#ffffff"
BLUE, GREEN, ORANGE, SKY, PINK, YELLOW, RED, GREY = (
    "#0072b2",
    "#009e73",
    "#e69f00",
    "#56b4e9",
    "#cc79a7",
    "#f0e442",
    "#d55e00",
    "#9aa5b1",
)
LABEL_COLORS = {"Session": GREY, "Event": BLUE, "Fact": GREEN, "Entity": ORANGE}
LINK_STYLES = {
    "HAS_EVENT": (GREY, "solid"),
    "NEXT": (GREY, "dashed"),
    "SUPPORTED_BY": (BLUE, "solid"),
    "SUBJECT": (ORANGE, "dashed"),
    "OBJECT": (ORANGE, "solid"),
    "MENTIONS": (SKY, "dotted"),
}
"""A color and a style of line for each relationship, those of a fact's words like the words."""
TYPE_COLORS = {"person": ORANGE, "place": SKY, "organization": PINK, "animal": YELLOW, "event": GREEN, "other": GREY}
DASHED, DOTTED = (0, (4, 3)), (0, (1, 1.5))
STYLE = {
    "figure.dpi": 110,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": PALE,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 14,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "grid.color": "#e6eaee",
    "xtick.color": PALE,
    "ytick.color": INK,
    "xtick.labelcolor": PALE,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0,
    "legend.frameon": False,
}
plt.rcParams.update(STYLE)


def tint(color: str, strength: float = 0.4) -> tuple[float, ...]:
    """Mix a color with white, so that dark text on it stays legible."""
    return tuple(1 - strength * (1 - part) for part in to_rgb(color))


def name_value(fact: StoredFact, captions: Mapping[str, str] | None = None) -> str:
    """Name what a fact says of its subject: the object, else a number that the text holds, else the text."""
    if fact.object:
        return (captions or {}).get(fact.object, fact.object)
    number = re.search(r"\+?\d[\d ]{5,}\d", fact.text)
    return number[0] if number else textwrap.shorten(fact.text, 40, placeholder="…")


def name_row(subject: str | None, predicate: str, captions: Mapping[str, str]) -> str:
    """Name a subject and a predicate as a reader would."""
    return f"{captions.get(subject or '', subject)} · {predicate.replace('_', ' ')}"


def list_types(entities: Iterable[StoredEntity]) -> dict[str | None, str]:
    """List the entities' types by name; those without a color of their own are ``other``."""
    return {entity.name: entity.type if entity.type in TYPE_COLORS else "other" for entity in entities}
