"""Print results as the one table that a reader needs, and save them as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.latency.result import Result

_HEADINGS = ("what", "ours", "compared to", "theirs", "ratio (rounds)", "bar", "")
_NUMBERS = ("ours", "theirs", "ratio (rounds)", "bar")
_COLOURS = {"missed": "red", "met": "green", "met, stretch too": "bold green"}


def show(console: Console, results: Sequence[Result], about: Mapping[str, str]) -> None:
    """Prints the table, what it was measured on, and the remarks."""
    table = Table(title="adk-graph-memory: latency, medians over the rounds")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right" if heading in _NUMBERS else "left", no_wrap=True)
    for result in results:
        table.add_row(*_format_cells(result))
    console.print(table)
    for name, value in about.items():
        console.print(f"{name}: {value}", highlight=False, soft_wrap=True)
    for result in results:
        if result.note:
            console.print(f"{result.what.strip()}: {result.note}", highlight=False, soft_wrap=True)


def save(path: Path, results: Sequence[Result], about: Mapping[str, str]) -> None:
    """Writes the same figures, with the values of every round."""
    figures = {"about": dict(about), "results": [result.as_json() for result in results]}
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _format_cells(result: Result) -> list[str]:
    sign = "≥" if result.more_is_better else "≤"
    ratio = ""
    if result.ratio is not None and result.spread is not None:
        ratio = f"{result.ratio:.2f} ({result.spread[0]:.2f}–{result.spread[1]:.2f})"
    bar = "" if result.bar is None else f"{sign} {result.bar:g}" + (" ×" if result.theirs else "")
    if result.stretch is not None:
        bar += f" ({result.stretch:g})"
    verdict = result.verdict
    return [
        result.what,
        _format_number(result.value, result.unit),
        result.peer,
        _format_number(result.peer_value, result.unit),
        ratio,
        bar,
        f"[{_COLOURS[verdict]}]{verdict}[/]" if verdict else "",
    ]


def _format_number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:,.0f} {unit}".strip() if not unit or value >= 100 else f"{value:.1f} {unit}"
