"""Sum the reports of finished ingests by user, day and extractor, and compute their cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from adk_graph_memory.records import IngestReport, Usage

Prices = Sequence[tuple[str, float, float, float]]
"""For each model its name and the price of a million tokens: input, output, cached input."""


@dataclass(frozen=True, slots=True)
class CostEntry:
    """The ingests of one user, day and extractor; ``cost`` is None if the model has no price."""

    app_name: str
    user_id: str
    day: str
    extractor: str
    ingests: int
    report: IngestReport
    cost: float | None = None


def sum_reports(rows: Iterable[Mapping[str, Any]], prices: Prices) -> list[CostEntry]:
    """Sum reports into one entry per user, day and extractor, sorted by app, user, day and extractor.

    Args:
        rows: what :func:`adk_graph_memory.graph.ingest_queue.fetch_ingest_reports` returns.
        prices: the price table of the settings.
    """
    entries: dict[tuple[str, str, str, str], CostEntry] = {}
    for row in rows:
        key = row["app_name"], row["user_id"], row["day"], row["extractor"]
        entry = entries.get(key, CostEntry(*key, 0, IngestReport(extractor=key[3])))
        entries[key] = replace(entry, ingests=entry.ingests + 1, report=entry.report + _parse_report(row["report"]))
    return [
        replace(entry, cost=compute_cost(entry.extractor.partition(" ")[0], entry.report.usage, prices))
        for _, entry in sorted(entries.items())
    ]


def _parse_report(text: str) -> IngestReport:
    """Parse a stored report, ignoring fields of other releases."""
    members = json.loads(text)
    names = {field.name for field in fields(IngestReport)}
    usage = Usage(**{field.name: members.get("usage", {}).get(field.name, 0) for field in fields(Usage)})
    return IngestReport(**{name: value for name, value in members.items() if name in names} | {"usage": usage})


def compute_cost(model: str, usage: Usage, prices: Prices) -> float | None:
    """Compute what a model's usage costs; None if the model has no price."""
    model_prices = next((costs for name, *costs in prices if name == model), None)
    if model_prices is None:
        return None
    tokens = (usage.input_tokens - usage.cached_tokens, usage.output_tokens, usage.cached_tokens)
    return sum(count * price for count, price in zip(tokens, model_prices, strict=True)) / 1_000_000
