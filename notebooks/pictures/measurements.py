"""Draw how well and how fast searches find what they should."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from .look import BLUE, GREY, INK, tint


def draw_hits(hits: Mapping[str, tuple[int, int]], questions: int, *, title: str, ours: str) -> Figure:
    """Draw a bar for each way to search: of how many questions the evidence stands among the first three, and ten.

    Args:
        hits: by name, how many questions have their evidence among the first three memories, and among the first ten.
        questions: how many were asked.
        title: stands above the drawing.
        ours: the name of the bar in color.
    """
    figure, axes = plt.subplots(figsize=(11, 1.5 + 0.5 * len(hits)))
    for y, (name, (in_three, in_ten)) in enumerate(hits.items()):
        color = BLUE if name == ours else GREY
        low, high = compute_interval(in_three, questions)
        axes.barh(y, in_ten, height=0.62, color=tint(color, 0.3))
        axes.barh(y, in_three, height=0.62, color=tint(color, 0.8))
        axes.plot([low * questions, high * questions], [y, y], color=INK, lw=1.2, marker="|", markersize=7)
        axes.text(questions + 0.3, y, f"{in_three} · {in_ten}", va="center", fontsize=10.5)
    axes.set_yticks(range(len(hits)), hits, fontsize=10.5)
    axes.set_ylim(len(hits) - 0.4, -0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 3, 5, 10]))
    axes.set(xlim=(0, questions), xlabel=f"questions, of {questions}", title=title)
    axes.grid(axis="x")
    keys = [
        Patch(facecolor=tint(BLUE, 0.8), label="evidence among the first three"),
        Patch(facecolor=tint(BLUE, 0.3), label="among the first ten"),
        Line2D([], [], color=INK, lw=1.2, marker="|", label="95 % interval of the first three"),
    ]
    axes.legend(handles=keys, ncols=3, loc="upper center", bbox_to_anchor=(0.4, -0.62 / len(hits) - 0.08))
    figure.tight_layout()
    return figure


def compute_interval(hits: int, questions: int) -> tuple[float, float]:
    """Compute Wilson's 95 % interval of a share (Wilson, 1927)."""
    z = 1.96
    center, share = questions + z * z, hits / questions
    spread = z * math.sqrt(questions * share * (1 - share) + z * z / 4)
    return (hits + z * z / 2 - spread) / center, (hits + z * z / 2 + spread) / center


def draw_times(times: Mapping[str, Sequence[float]], *, title: str, ours: str) -> Figure:
    """Draw a dot for each search, and a line at the median of each way to search.

    Args:
        times: milliseconds of each search, by name.
        title: stands above the drawing.
        ours: the name of the dots in color.
    """
    figure, axes = plt.subplots(figsize=(11, 1.4 + 0.6 * len(times)))
    spread = np.random.default_rng(0)
    for y, (name, values) in enumerate(times.items()):
        color, median = BLUE if name == ours else GREY, float(np.median(values))
        axes.scatter(values, y + spread.uniform(-0.2, 0.2, len(values)), s=18, color=color, alpha=0.55, linewidths=0)
        axes.plot([median, median], [y - 0.32, y + 0.32], color=INK, lw=2)
        axes.annotate(
            f"{median:.1f} ms", (median, y - 0.32), (0, 2), textcoords="offset points", ha="center", fontsize=9
        )
    axes.set_yticks(range(len(times)), times, fontsize=10.5)
    axes.set_ylim(len(times) - 0.4, -0.75)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(xlabel="milliseconds, on a logarithmic axis", title=title)
    axes.grid(axis="x")
    figure.tight_layout()
    return figure
