"""The Grafana dashboard and the table of alerts ask for metrics that the package emits, and for no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram, InMemoryMetricReader, Sum
from tests.support.documents import ROOT

from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.runtime import telemetry

DASHBOARD = json.loads((ROOT / "docs" / "assets" / "grafana-dashboard.json").read_text("utf-8"))
EXPRESSIONS = {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in DASHBOARD["panels"]}
UNITS = {"s": "_seconds"}
"""What opentelemetry-exporter-prometheus 0.66b2 appends for a unit; nothing for one in braces."""
LABELS = re.compile(r"\{[^}]*\}|\bby \([^)]*\)")


class ServerError(Exception):
    code = "Neo.ClientError.Statement.SyntaxError"


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """All metrics, each emitted once, with each attribute that it may have."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(telemetry, "active_instruments", telemetry.Instruments(provider.get_meter("test")))
    telemetry.record_ingest({"ADD": 1}, 2.0)
    telemetry.record_pending("home", 3)
    with pytest.raises(ServerError), telemetry.trace_statement("add", telemetry.get_database_attributes(None, "neo4j")):
        raise ServerError
    with pytest.raises(ServerError), telemetry.trace_model_call("gcp", "gemini") as record_usage:
        record_usage(Usage(input_tokens=1))
        raise ServerError
    data: Any = reader.get_metrics_data()
    yield [metric for scope in data.resource_metrics[0].scope_metrics for metric in scope.metrics]
    provider.shutdown()


def name_series(metric: Any) -> set[str]:
    """The names under which Prometheus knows a metric."""
    name = metric.name.replace(".", "_") + UNITS.get(metric.unit, "")
    if isinstance(metric.data, Histogram):
        return {f"{name}_{part}" for part in ("bucket", "count", "sum")}
    return {f"{name}_total"} if isinstance(metric.data, Sum) else {name}


def find_metrics(expression: str) -> set[str]:
    """The metrics in a PromQL expression: names that are neither labels nor functions, nor in a range."""
    bare = re.sub(r"\[[^\]]*\]", "", LABELS.sub(" ", expression))
    return set(re.findall(r"\b[a-z_]+\b(?!\s*\()", bare))


def find_labels(expression: str) -> set[str]:
    return set(re.findall(r"[a-z_]+", re.sub(r'"[^"]*"|\bby\b', "", " ".join(LABELS.findall(expression)))))


def test_each_metric_is_shown_and_no_other(metrics: list[Any]) -> None:
    series = set().union(*map(name_series, metrics))
    shown = {title: set().union(*map(find_metrics, expressions)) for title, expressions in EXPRESSIONS.items()}
    assert {title for title, names in shown.items() if not names or names - series} == set()
    assert [metric.name for metric in metrics if not name_series(metric) & set().union(*shown.values())] == []


def test_each_label_is_an_attribute(metrics: list[Any]) -> None:
    attributes = {name for metric in metrics for point in metric.data.data_points for name in point.attributes}
    labels = {name.replace(".", "_") for name in attributes} | {"le"}
    assert {title for title, texts in EXPRESSIONS.items() if find_labels(" ".join(texts)) - labels} == set()


def test_the_rule_would_find() -> None:
    expression = 'max(rate(a_total{b="c"}[5m])) / sum by (d) (e_count) * 2'
    assert (find_metrics(expression), find_labels(expression)) == ({"a_total", "e_count"}, {"b", "d"})


def test_panels_have_ids_and_the_chosen_data_source() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    [variable] = DASHBOARD["templating"]["list"]
    assert (variable["name"], variable["type"], variable["query"]) == ("datasource", "datasource", "prometheus")


def test_the_alerts_watch_metrics_that_there_are(metrics: list[Any]) -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    rows = page.partition("| metric | threshold | what to do |")[2].partition("\n\n")[0].splitlines()[2:]
    watched = [re.findall(r"`([\w.]+)`", row.split("|")[1])[0] for row in rows]
    assert len(watched) >= 5
    assert set(watched) <= {metric.name for metric in metrics}
