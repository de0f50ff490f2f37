"""What was so at a time, and what memory knew at another."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adk_graph_memory import AsOf, GraphMemory, Statement, Turn, errors
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)
Owner = dict[str, str]


def make_reply(city: str, **fields: Any) -> str:
    entities = [{"ref": 1, "name": "user", "type": "person"}, {"ref": 2, "name": city, "type": "place"}]
    fact = {"subject": 1, "predicate": "lives_in", "object": 2, "text": f"The user lives in {city}", "turns": [0]}
    return json.dumps({"entities": entities, "facts": [fact | {"quote": f"I live in {city}"} | fields]})


@pytest.fixture
async def memory(neo4j_server: Any) -> Any:
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0, functional_predicates=("lives_in",))
    model = ScriptedLlm.from_replies(make_reply("Faro"), make_reply("Porto"))
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as made:
        yield made


@pytest.fixture
async def owner(memory: GraphMemory, app_name: str) -> Owner:
    """Whose memory heard of Faro, and then that it was Porto from the fifth day on."""
    owner = {"app_name": app_name, "user_id": "ada"}
    await memory.remember([Turn("t0", "user", "I live in Faro", NOON)], session_id="s0", **owner)
    await memory.remember([Turn("t5", "user", "I live in Porto", NOON + 5 * DAY)], session_id="s5", **owner)
    return owner


async def list_texts(memory: GraphMemory, owner: Owner, as_of: AsOf, **options: Any) -> list[str]:
    return [fact.text async for fact in memory.facts(**owner, as_of=as_of, **options)]


async def fetch_recorded_at(memory: GraphMemory, owner: Owner, text: str) -> datetime:
    [id] = [fact.id async for fact in memory.facts(**owner, past=True) if text in fact.text]
    at = (await memory.user(**owner).history(id)).entries[0].at
    assert at is not None
    return at


@pytest.mark.slow
async def test_facts_hold_from_when_until_when_they_were_so(memory: GraphMemory, owner: Owner) -> None:
    assert await list_texts(memory, owner, AsOf(valid=NOON - DAY)) == []
    assert await list_texts(memory, owner, AsOf(valid=NOON + DAY)) == ["The user lives in Faro"]
    assert await list_texts(memory, owner, AsOf(valid=NOON + 6 * DAY)) == ["The user lives in Porto"]
    both = await list_texts(memory, owner, AsOf(valid=NOON + 6 * DAY), past=True)
    assert both == ["The user lives in Porto", "The user lives in Faro"]
    assert await list_texts(memory, owner, AsOf(valid=NOON + 6 * DAY), past=True, about="faro") == both[1:]


@pytest.mark.slow
async def test_memory_knew_only_what_it_had_heard(memory: GraphMemory, owner: Owner) -> None:
    heard_of_porto = await fetch_recorded_at(memory, owner, "Porto")
    before = AsOf(valid=NOON + 6 * DAY, recorded=heard_of_porto - timedelta(milliseconds=1))
    [faro] = [fact async for fact in memory.facts(**owner, as_of=before)]
    assert (faro.text, faro.state, faro.valid_to, faro.holds) == ("The user lives in Faro", "current", None, True)
    assert await list_texts(memory, owner, AsOf(recorded=NOON)) == []
    found = await memory.recall("The user lives in", as_of=before, **owner)
    facts = [(one.text, one.is_current, one.superseded_by, one.at) for one in found if one.kind == "fact"]
    assert facts == [("The user lives in Faro", True, (), NOON)]
    texts = [found.text for found in await memory.recall("Porto", as_of=before, **owner)]
    assert not any("Porto" in text for text in texts)


@pytest.mark.slow
async def test_a_correction_was_true_before_it_was_made(memory: GraphMemory, owner: Owner) -> None:
    [id] = [fact.id async for fact in memory.facts(**owner) if "Porto" in fact.text]
    change = await memory.user(**owner).correct(id, text="The user lives in Lagos")
    assert await list_texts(memory, owner, AsOf(valid=NOON + 6 * DAY)) == ["The user lives in Lagos"]
    [lagos] = [fact.id for fact in change.facts if fact.after and "Lagos" in fact.after.text]
    recorded = (await memory.user(**owner).history(lagos)).entries[0].at
    assert recorded is not None
    before = AsOf(valid=NOON + 6 * DAY, recorded=recorded - timedelta(milliseconds=1))
    assert await list_texts(memory, owner, before) == ["The user lives in Porto"]
    await memory.user(**owner).undo(change.ingest_id)
    assert await list_texts(memory, owner, AsOf(valid=NOON + 6 * DAY)) == ["The user lives in Porto"]


async def test_what_was_forgotten_was_never_there(memory: GraphMemory, owner: Owner) -> None:
    heard = await fetch_recorded_at(memory, owner, "Faro")
    await memory.user(**owner).forget_session("s0")
    assert await list_texts(memory, owner, AsOf(valid=NOON + DAY, recorded=heard)) == []


@pytest.mark.slow
async def test_statements_hold_from_when_they_were_made(memory: GraphMemory, owner: Owner) -> None:
    await memory.user(**owner).add_statements([Statement("The door code is 1234", NOON)])
    assert "The door code is 1234" in await list_texts(memory, owner, AsOf(valid=NOON + DAY))
    assert await list_texts(memory, owner, AsOf(valid=NOON + DAY, recorded=NOON)) == []


async def test_pages_go_on_and_bad_times_are_refused(memory: GraphMemory, owner: Owner) -> None:
    as_of = AsOf(valid=NOON + 6 * DAY)
    [first] = [fact async for fact in memory.facts(**owner, as_of=as_of, past=True, limit=1)]
    rest = await list_texts(memory, owner, as_of, past=True, after=first.id)
    assert (first.text, rest) == ("The user lives in Porto", ["The user lives in Faro"])
    with pytest.raises(errors.NotFound, match="last id"):
        await list_texts(memory, owner, as_of, after="fact:0")
    with pytest.raises(errors.InvalidArgument, match="no time zone"):
        AsOf(valid=datetime(2026, 1, 1))
    assert await list_texts(memory, {**owner, "user_id": "bea"}, as_of) == []
