"""What ``make bench`` counts stays within its bars; its times depend on the machine and gate nothing."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from benchmarks.latency import memories, scopes
from benchmarks.latency.result import Result
from benchmarks.latency.scale import QUICK, Scale
from tests.conftest import Server

from adk_graph_memory.runtime.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.schema]
Measure = Callable[[Settings, Scale], AsyncIterator[Result]]


@pytest.mark.parametrize("measure", [memories.remember, memories.search, scopes.search])
async def test_counts_meet_their_bars(neo4j_server: Server, measure: Measure) -> None:
    settings = neo4j_server.settings(label_prefix=f"L{uuid.uuid4().hex[:10]}")
    sizes = {"remembered": (20, 40), "users": 3, "events_a_user": 20, "searches": 5, "scopes": ((100, 300), (200, 500))}
    results = [result async for result in measure(settings, replace(QUICK, warm_up=1, rounds=1, **sizes))]
    counts = {result.what.strip(): result.verdict for result in results if result.bar is not None and not result.unit}
    assert "statements" in counts
    assert {what for what, verdict in counts.items() if not verdict.startswith("met")} == set()
