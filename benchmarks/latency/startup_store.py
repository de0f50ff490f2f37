"""Fill the store of ``benchmarks.latency.startup`` by the version whose interpreter runs this; print a fact's id."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from adk_graph_memory import GraphMemory, Neo4jSessionService, Turn

APP, USER = "startup", "ana"
TURNS, SESSIONS = 30, 20


async def fill_store() -> str:
    """Store sessions and facts of a user, and return the id of a fact."""
    owner = {"app_name": APP, "user_id": USER}
    start = datetime.now(UTC) - timedelta(days=TURNS)
    said = [f"My dog is called Rex {number}, and I live in Lisbon." for number in range(TURNS)]
    turns = [Turn(f"t{number}", "user", text, start + timedelta(days=number)) for number, text in enumerate(said)]
    async with GraphMemory(model="rules", embedder=False) as memory, Neo4jSessionService() as sessions:
        await memory.remember(turns, **owner, session_id="told")
        for _ in range(SESSIONS):
            await sessions.create_session(**owner)
        [fact] = [fact async for fact in memory.facts(**owner, limit=1)]
    return fact.id


if __name__ == "__main__":
    print(asyncio.run(fill_store()))
