"""Reports of finished ingests go in; what remembering came to and cost comes out, by user, day and extractor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from adk_graph_memory.records import IngestReport, Usage

Prices = Sequence[tuple[str, float, float, float]]
"""A model, and what a million tokens cost: input, output, and input that was cached."""


@dataclass(frozen=True, slots=True)
class CostEntry:
    """What the ingests of one user, day and extractor came to; ``cost`` is None where no price is known."""

    app_name: str
    user_id: str
    day: str
    extractor: str
    ingests: int
    report: IngestReport
    cost: float | None = None


def sum_reports(rows: Iterable[Mapping[str, Any]], prices: Prices) -> list[CostEntry]:
    """One entry for each user, day and extractor, by app, user and day.

    Args:
        rows: as :func:`adk_graph_memory.graph.ingest_queue.fetch_ingest_reports` gives them.
        prices: the price table of the settings.
    """
    found: dict[tuple[str, str, str, str], CostEntry] = {}
    for row in rows:
        key = row["app_name"], row["user_id"], row["day"], row["extractor"]
        before = found.get(key, CostEntry(*key, 0, IngestReport(extractor=key[3])))
        found[key] = replace(before, ingests=before.ingests + 1, report=before.report + _parse_report(row["report"]))
    return [replace(entry, cost=_compute_cost(entry, prices)) for _, entry in sorted(found.items())]


def _parse_report(text: str) -> IngestReport:
    """A report as it was stored; what only another release knows of is passed over."""
    stored = json.loads(text)
    known = {field.name for field in fields(IngestReport)}
    usage = Usage(**{field.name: stored.get("usage", {}).get(field.name, 0) for field in fields(Usage)})
    return IngestReport(**{name: value for name, value in stored.items() if name in known} | {"usage": usage})


def _compute_cost(entry: CostEntry, prices: Prices) -> float | None:
    price = next((costs for model, *costs in prices if model == entry.extractor.partition(" ")[0]), None)
    if price is None:
        return None
    usage = entry.report.usage
    fresh = usage.input_tokens - usage.cached_tokens
    tokens = (fresh, usage.output_tokens, usage.cached_tokens)
    return sum(count * each for count, each in zip(tokens, price, strict=True)) / 1_000_000
