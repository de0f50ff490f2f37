"""Draw the part of a person's graph that is worth seeing."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from adk_graph_memory.records.results import StoredEntity, StoredFact

from .look import DASHED, DOTTED, INK, PALE, PAPER, RED, TYPE_COLORS, list_types, tint


def select_facts(facts: Iterable[StoredFact], center: str, limit: int) -> list[StoredFact]:
    """Select what is asserted between an entity and the ``limit`` others that most facts connect to it.

    What only happened once, plans, denials and what has ended between others are left out: a drawing of everything is
    a hairball.
    """
    links = [
        fact
        for fact in facts
        if fact.subject and fact.object and fact.modality == "asserted" and fact.status in ("holds", "over")
        if fact.holds or center in (fact.subject, fact.object)
    ]
    counts = defaultdict(float)
    for fact in links:
        for name in (fact.subject, fact.object):
            counts[name] += 1 if fact.holds else 2  # a change is worth seeing
    names = {center, *sorted(counts.keys() - {center}, key=lambda name: (-counts[name], name))[:limit]}
    graph = nx.Graph((fact.subject, fact.object) for fact in links if {fact.subject, fact.object} <= names)
    near = nx.node_connected_component(graph, center) if center in graph else {center}
    return [fact for fact in links if {fact.subject, fact.object} <= near]


def draw_graph(
    facts: Sequence[StoredFact],
    entities: Iterable[StoredEntity],
    center: str,
    *,
    title: str,
    captions: Mapping[str, str] | None = None,
) -> Figure:
    """Draw entities around the one in the center, and the facts as arrows from subject to object.

    Args:
        facts: those to draw; each has an object (:func:`select_facts`).
        entities: tell the entities' types.
        center: the name of the entity that the others stand around.
        title: stands above the drawing.
        captions: what to call an entity whose name would not tell a reader who it is.
    """
    figure, axes = plt.subplots(figsize=(13, 8.2))
    types = list_types(entities)
    places = _place_around(facts, center)
    boxes = _draw_boxes(axes, places, facts, types, center, captions or {})
    axes.set(xlim=(-1.13, 1.13), ylim=(-1.1, 1.1), title=title)
    axes.axis("off")
    figure.subplots_adjust(left=0.01, right=0.99, top=0.93, bottom=0.06)
    for (start, end, is_current), group in _group_links(facts).items():
        lane = _choose_lane(facts, start, end, is_current=is_current)
        _draw_link(axes, boxes[start], boxes[end], group, lane, is_long=center in (start, end))
    _draw_key(axes, facts, {types.get(name, "other") for name in places})
    return figure


def _draw_boxes(
    axes: Axes,
    places: Mapping[str, tuple[float, float]],
    facts: Sequence[StoredFact],
    types: Mapping[str | None, str],
    center: str,
    captions: Mapping[str, str],
) -> dict[str, Text]:
    """Draw a box for each entity, pale if nothing that holds is said of it."""
    boxes = {}
    current_names = {center} | {name for fact in facts if fact.holds for name in (fact.subject, fact.object)}
    for name, (x, y) in places.items():
        caption = textwrap.fill(captions.get(name, name), 17)
        color, is_center = TYPE_COLORS[types.get(name, "other")], name == center
        box = {"boxstyle": "round,pad=0.45", "facecolor": tint(color, 0.75 if is_center else 0.4), "edgecolor": color}
        if name not in current_names:
            box |= {"facecolor": tint(color, 0.12), "edgecolor": tint(color, 0.6), "linestyle": DASHED}
        font = {"fontsize": 14, "weight": "bold"} if is_center else {"fontsize": 10.5}
        font["color"] = INK if name in current_names else PALE
        boxes[name] = axes.text(x, y, caption, ha="center", va="center", bbox=box, zorder=1, **font)
    return boxes


def _draw_key(axes: Axes, facts: Iterable[StoredFact], types: Collection[str]) -> None:
    kinds = [kind for kind in TYPE_COLORS if kind in types]
    keys = [Patch(facecolor=tint(TYPE_COLORS[kind]), edgecolor=TYPE_COLORS[kind], label=kind) for kind in kinds]
    keys += [
        Line2D([], [], color=INK, lw=1.3, label="holds"),
        Line2D([], [], color=PALE, lw=1.3, ls=DASHED, alpha=0.7, label="has ended"),
    ]
    if any(fact.state == "retracted" for fact in facts):
        keys.append(Line2D([], [], color=RED, lw=1.3, ls=DOTTED, label="was never true"))
    axes.legend(handles=keys, ncols=len(keys), loc="upper center", bbox_to_anchor=(0.5, 0.0))


def _place_around(facts: Sequence[StoredFact], center: str) -> dict[str, tuple[float, float]]:
    """Place the entities on an ellipse, those beside each other that facts connect."""
    graph = nx.Graph((fact.subject, fact.object) for fact in facts)
    graph.remove_nodes_from([center])  # which may not be there: a memory may know nothing of it
    groups = sorted(nx.connected_components(graph), key=lambda group: (-len(group), min(group)))
    order = [name for group in groups for name in _order_group(graph.subgraph(group))]
    angles = np.pi * (0.5 - 2 * (np.arange(len(order)) + 0.5) / len(order))
    return {center: (0.0, 0.0)} | {
        name: (float(np.cos(angle)), float(np.sin(angle))) for name, angle in zip(order, angles, strict=True)
    }


def _order_group(group: nx.Graph) -> list[str]:
    """Order a group so that neighbours in the graph are neighbours in the list, as far as possible."""
    ends = sorted(group, key=lambda name: (group.degree(name), name))
    return list(nx.dfs_preorder_nodes(group, ends[0], sort_neighbors=sorted))


def _group_links(facts: Iterable[StoredFact]) -> dict[tuple[str, str, bool], list[StoredFact]]:
    groups = defaultdict(list)
    for fact in facts:
        groups[fact.subject, fact.object, fact.holds].append(fact)
    return groups


def _choose_lane(facts: Sequence[StoredFact], start: str, end: str, *, is_current: bool) -> float:
    """Choose the side that a link keeps to among those of its pair: 0 if it is the only one, else to the left or right.

    Each direction is a link, and what has ended is another.
    """
    links = sorted(
        {(fact.subject, fact.object, fact.holds) for fact in facts if {fact.subject, fact.object} == {start, end}}
    )
    lane = links.index((start, end, is_current)) - (len(links) - 1) / 2
    return lane if start < end else -lane  # an arrow's left is the right of one that comes back


def _draw_link(axes: Axes, start: Text, end: Text, facts: Sequence[StoredFact], lane: float, *, is_long: bool) -> None:
    bend = 0.24 * lane
    is_retracted = all(fact.state == "retracted" for fact in facts)
    is_current = facts[0].holds
    color = RED if is_retracted else INK if is_current else PALE
    arrow = {
        "arrowstyle": "-|>",
        "color": color,
        "alpha": 0.85 if is_current else 0.6,
        "linestyle": "solid" if is_current else DOTTED if is_retracted else DASHED,
        "connectionstyle": f"arc3,rad={bend}",
        "patchA": start.get_bbox_patch(),
        "patchB": end.get_bbox_patch(),
        "shrinkA": 2,
        "shrinkB": 2,
    }
    # It is drawn after the boxes at which it ends: only then have they the size at which the figure is drawn.
    axes.annotate("", end.get_position(), start.get_position(), arrowprops=arrow, zorder=2)
    share = 0.5 + 0.2 * np.sign(lane)  # labels of links side by side are not
    if is_long:  # nearer to the rim, where there is more room
        from_center = start.get_position() == (0.0, 0.0)
        share = 0.58 if (lane if from_center else -lane) >= 0 else 0.76
        share = share if from_center else 1 - share
    (x1, y1), (x2, y2) = axes.transData.transform([start.get_position(), end.get_position()])
    offset = 2 * share * (1 - share) * bend  # the arrow is a quadratic Bézier curve
    x, y = x1 + share * (x2 - x1) + offset * (y2 - y1), y1 + share * (y2 - y1) - offset * (x2 - x1)
    x, y = axes.transData.inverted().transform((x, y))
    label = "\n".join(dict.fromkeys(fact.predicate.replace("_", " ") for fact in facts))
    box = {"boxstyle": "round,pad=0.12", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.9}
    axes.text(x, y, label, ha="center", va="center", fontsize=8, color=color, bbox=box, zorder=3, linespacing=1.15)
