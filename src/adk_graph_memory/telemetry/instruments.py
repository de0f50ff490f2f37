"""What became of requests to remember goes in, and how long things took; metrics come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry import metrics

NAME = "adk_graph_memory"
"""Of the tracer and the meter, and what the names begin with that no convention gives."""

SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
STATEMENT_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
TOKENS = [4**power for power in range(14)]
"""The conventions' buckets; the next are ours."""
LAG_SECONDS = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400]


class Instruments:
    """Everything that is counted and measured.

    Args:
        meter: the API's, which hands on to the provider that the application sets, whenever it does.
    """

    def __init__(self, meter: metrics.Meter) -> None:
        def histogram(name: str, unit: str, buckets: Sequence[float], description: str) -> metrics.Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)

        self.operations = histogram("gen_ai.client.operation.duration", "s", SECONDS, "GenAI operation duration.")
        self.tokens = histogram(
            "gen_ai.client.token.usage", "{token}", TOKENS, "Number of input and output tokens used."
        )
        self.statements = histogram(
            "db.client.operation.duration", "s", STATEMENT_SECONDS, "Duration of database client operations."
        )
        self.lag = histogram(
            f"{NAME}.ingest.lag", "s", LAG_SECONDS, "From a request to remember to the commit of what came of it."
        )
        self.pending = meter.create_gauge(
            f"{NAME}.ingest.pending",
            "{request}",
            "Requests to remember of an app that wait or are being read.",
        )
        self.facts = meter.create_counter(f"{NAME}.facts", "{fact}", "Facts that were written, by operation.")


current = Instruments(metrics.get_meter(NAME))


def written(facts: Mapping[str, int]) -> None:
    """Counts facts by operation, once they are committed."""
    for op, count in facts.items():
        current.facts.add(count, {f"{NAME}.op": op})


def ingested(facts: Mapping[str, int], seconds: float) -> None:
    """Counts the facts of a request to remember, committed so many seconds after it was made."""
    current.lag.record(seconds)
    written(facts)


def waiting(requests: Mapping[str, int]) -> None:
    """Takes in how many requests to remember wait, by app."""
    for app_name, count in requests.items():
        current.pending.set(count, {f"{NAME}.app_name": app_name})
