"""Define and record the metrics: durations, token usage, facts and the ingest queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry import metrics

INSTRUMENTATION_NAME = "adk_graph_memory"
"""Name of the tracer and the meter, and prefix of metric names that no convention defines."""

DURATION_BUCKETS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
STATEMENT_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
TOKEN_BUCKETS = [4**power for power in range(14)]
"""The three above are the conventions' buckets; those below are our own."""
LAG_BUCKETS = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400]


class Instruments:
    """All metric instruments.

    Args:
        meter: the API's meter, which forwards to the application's provider as soon as one is set.
    """

    def __init__(self, meter: metrics.Meter) -> None:
        def histogram(name: str, unit: str, buckets: Sequence[float], description: str) -> metrics.Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)

        self.operation_duration = histogram(
            "gen_ai.client.operation.duration", "s", DURATION_BUCKETS, "GenAI operation duration."
        )
        self.token_usage = histogram(
            "gen_ai.client.token.usage", "{token}", TOKEN_BUCKETS, "Number of input and output tokens used."
        )
        self.statement_duration = histogram(
            "db.client.operation.duration", "s", STATEMENT_BUCKETS, "Duration of database client operations."
        )
        self.ingest_lag = histogram(
            f"{INSTRUMENTATION_NAME}.ingest.lag",
            "s",
            LAG_BUCKETS,
            "From a request to remember to the commit of what came of it.",
        )
        self.pending_requests = meter.create_gauge(
            f"{INSTRUMENTATION_NAME}.ingest.pending",
            "{request}",
            "Requests to remember of an app that wait or are being read.",
        )
        self.fact_counter = meter.create_counter(
            f"{INSTRUMENTATION_NAME}.facts", "{fact}", "Facts that were written, by operation."
        )


active_instruments = Instruments(metrics.get_meter(INSTRUMENTATION_NAME))


def record_facts(facts: Mapping[str, int]) -> None:
    """Count committed facts by operation."""
    for op, count in facts.items():
        active_instruments.fact_counter.add(count, {f"{INSTRUMENTATION_NAME}.op": op})


def record_ingest(facts: Mapping[str, int], seconds: float) -> None:
    """Count the facts of an ingest request that was committed ``seconds`` after it was made."""
    active_instruments.ingest_lag.record(seconds)
    record_facts(facts)


def record_pending(app_name: str, count: int) -> None:
    """Record the number of an app's pending ingest requests."""
    active_instruments.pending_requests.set(count, {f"{INSTRUMENTATION_NAME}.app_name": app_name})
