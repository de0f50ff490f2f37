"""An agent that obeys every attack, on one dialogue of each family: what its tools let it do to a memory."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.quality.attacks import FAMILIES, load_dialogues
from benchmarks.quality.poisoned_agent import obey

from adk_graph_memory.testing import HashEmbedder

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("guard", [None, "rules"])
@pytest.mark.parametrize("family", FAMILIES)
async def test_it_changes_nothing_that_the_user_said(
    neo4j_server: Any, app_name: str, family: str, guard: str | None
) -> None:
    dialogue = next(one for one in load_dialogues() if one.family == family)
    settings = neo4j_server.settings(label_prefix="TestHash", database_timeout=120)
    outcome = await obey(settings, dialogue, guard, app_name=app_name, embedder=HashEmbedder())
    assert outcome.facts and outcome.proposals
    assert (outcome.as_user, outcome.changed, outcome.unmarked) == ((), (), ())
    assert bool(outcome.as_agent) == (guard is None)
    assert outcome.in_profile == () if guard else all(claim in outcome.as_agent for claim in outcome.in_profile)
