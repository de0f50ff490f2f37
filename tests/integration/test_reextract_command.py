"""``adk-graph-memory reextract``: what there is to do, a sample, a budget, and going on after it is spent."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.conftest import Command

from adk_graph_memory import GraphMemory, Turn

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
async def sessions(neo4j_server: Any, app_name: str) -> list[str]:
    """Three sessions of two users, as if another extractor had read them."""
    settings = neo4j_server.settings()
    names = ["s0", "s1", "s2"]
    async with GraphMemory(settings=settings, model="rules") as memory:
        for day, session_id in enumerate(names):
            user = "ana" if day < 2 else "bob"
            turn = Turn(f"t{day}", "user", f"I keep {day + 2} goats.", NOON + timedelta(days=day))
            await memory.remember([turn], app_name=app_name, user_id=user, session_id=session_id)
        driver = await memory.connection.get_driver()
        of_app = f"MATCH (u:{settings.label_prefix}User {{app_name: $app}})"
        query = f"{of_app} MATCH (i:{settings.label_prefix}Ingest {{scope: u.scope}}) SET i.extractor = 'old'"
        await driver.execute_query(query, app=app_name)
    return names


@pytest.mark.slow
async def test_it_reads_what_is_outdated_once(command: Command, app_name: str, sessions: list[str]) -> None:
    plan = json.loads((await command("reextract", "--app", app_name, "--dry-run", "--json")).stdout)
    assert (plan["users"], plan["sessions"], plan["turns"], plan["max_calls"]) == (2, 3, 3, 0)
    shown = await command("reextract", "--app", app_name, "--dry-run")
    assert "3 sessions" in shown.stdout and "0 calls of the model at most" in shown.stdout
    outcome = json.loads((await command("reextract", "--app", app_name, "--user", "ana", "--json")).stdout)
    assert (outcome["total"], outcome["done"], outcome["left"], outcome["failed"]) == (2, 2, 0, {})
    assert outcome["usage"]["calls"] == 0 and len(outcome["ingests"]) == 2
    done = await command("reextract", "--app", app_name)
    assert done.exit_code == 0 and "1 of 1 session read again: 0 facts changed" in done.stdout
    again = await command("reextract", "--app", app_name)
    assert again.exit_code == 0 and "Nothing to do" in again.stdout
    undone = await command("undo", outcome["ingests"][0], "--app", app_name, "--user", "ana", "--yes")
    assert undone.exit_code == 0
    plan = json.loads((await command("reextract", "--app", app_name, "--dry-run", "--json")).stdout)
    assert plan["sessions"] == 1


@pytest.mark.slow
async def test_a_sample_writes_nothing(command: Command, app_name: str, sessions: list[str]) -> None:
    shown = await command("reextract", "--app", app_name, "--sample", "1")
    assert " of user " in shown.stdout and "Nothing changes." in shown.stdout and "Nothing was written" in shown.stdout
    plan = json.loads((await command("reextract", "--app", app_name, "--dry-run", "--json")).stdout)
    assert plan["sessions"] == 3


async def test_wrong_usage_is_named(command: Command, app_name: str, sessions: list[str]) -> None:
    unknown = await command("reextract", "--app", "nobody's")
    assert unknown.exit_code == 1 and "nobody's" in unknown.stderr
    free = await command("reextract", "--app", app_name, "--max-cost", "0", "--max-calls", "0")
    assert free.exit_code == 0  # rules cost nothing
    assert (await command("reextract", "--workers", "0")).exit_code == 2
    late = await command("reextract", "--app", app_name, "--force", "--since", "2026-03-03", "--dry-run", "--json")
    assert json.loads(late.stdout)["sessions"] == 2
