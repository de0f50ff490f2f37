"""Two users who are hard to tell apart never see each other's words; ``make quality`` asks a thousand such pairs."""

from __future__ import annotations

import pytest
from benchmarks.quality import tenants

pytestmark = pytest.mark.slow

PAIRS = 30


async def test_nobody_finds_anothers_words(neo4j_server) -> None:  # type: ignore[no-untyped-def]
    counts = await tenants.count_all_leaks(neo4j_server.settings(label_prefix="TestHash"), PAIRS, seed=1)
    assert (counts["leaked"], counts["found"]) == (0, 2 * PAIRS)
    assert counts["searches"] == 2 * PAIRS * tenants.SEARCHES
