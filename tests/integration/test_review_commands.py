"""The commands that review what a guard holds back, as people type them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from adk_graph_memory import GraphMemory, Turn
from adk_graph_memory.records.history import GuardCandidate, GuardVerdict

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def hold_all(candidate: GuardCandidate) -> GuardVerdict | None:
    return GuardVerdict("hold", "all", "nothing is trusted")


@pytest.fixture
async def held(neo4j_server: Any, app_name: str) -> tuple[str, ...]:
    """Two facts of Ana's are held; the arguments name her memory."""
    turns = [Turn("t0", "user", "My dog is called Rex.", NOON), Turn("t1", "user", "My cat is called Tom.", NOON)]
    async with GraphMemory(settings=neo4j_server.settings(), embedder=False, model="rules", guard=hold_all) as memory:
        await memory.remember(turns, app_name=app_name, user_id="ana", session_id="s1")
    return "--app", app_name, "--user", "ana"


async def find_fact(command: Any, held: tuple[str, ...]) -> str:
    [fact] = json.loads((await command("facts", *held, "--json")).stdout)
    return fact["id"]


async def test_what_is_held_is_reviewed(command: Any, held: tuple[str, ...], neo4j_server: Any) -> None:
    shown = (await command("review", *held)).output
    assert all(
        part in " ".join(shown.split()) for part in ("My dog is called Rex.", "all", "nothing is trusted", "(user)")
    )
    rex, tom = json.loads((await command("review", *held, "--json")).stdout)
    assert (await command("facts", *held)).output.count("called") == 0
    async with GraphMemory(settings=neo4j_server.settings(), embedder=False, model="rules") as memory:
        owner = {"app_name": held[1], "user_id": "ana"}
        await memory.remember([Turn("t2", "user", "My owl is called Eve.", NOON)], session_id="s1", **owner)
        [eve] = [fact.id async for fact in memory.facts(**owner)]
        assert (await memory.user(**owner).history(eve)).entries
        assert (await memory.forget(eve, **owner)).facts == 1
    assert "Remembered: My dog" in (await command("release", rex["id"], *held)).output
    assert "Deleted: My cat" in (await command("reject", tom["id"], *held, "--yes")).output
    assert "Nothing is held." in (await command("review", *held)).output
    assert "said" in (await command("history", await find_fact(command, held), *held)).output
    facts = (await command("facts", *held)).output
    assert ("Rex" in facts, "Tom" in facts) == (True, False)
    missing = await command("release", rex["id"], *held)
    assert (missing.exit_code, "NotFound" in missing.output) == (1, True)


@pytest.mark.slow
async def test_only_this_origin_is_asked_for(command: Any, held: tuple[str, ...]) -> None:
    assert "My dog" in (await command("recall", "dog", *held, "--origin", "user", "--origin", "owner")).output
    assert "Nothing is remembered" in (await command("recall", "dog", *held, "--origin", "tool")).output
    wrong = await command("recall", "dog", *held, "--origin", "friend")
    assert (wrong.exit_code, "none of owner" in " ".join(wrong.output.split())) == (2, True)
