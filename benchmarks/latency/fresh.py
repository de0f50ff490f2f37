"""``python -m benchmarks.latency.fresh APP``: the first two turns of an agent in a process of its own, as JSON.

What is printed is in milliseconds from the moment that the services are connected; the model's reply takes no time.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial

from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import types

from adk_graph_memory import Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.testing import ScriptedLlm
from benchmarks.latency.clock import time_call

USER = "first"
ASKED = "What do I keep on the roof?"


async def main(app_name: str) -> None:
    model = ScriptedLlm.from_replies("Bees.", "Bees.")
    async with Neo4jSessionService() as sessions, Neo4jMemoryService() as memory:
        session = await sessions.create_session(app_name=app_name, user_id=USER)
        await memory.memory.connection.run_statement("schema_state")
        agent = LlmAgent(name="companion", model=model, tools=[PreloadMemoryTool()])
        runner = Runner(app_name=app_name, agent=agent, session_service=sessions, memory_service=memory)
        turns = [await time_call(partial(_ask, runner, session.id)) for _ in range(2)]
    recalls = ["keep bees" in str(request) for request in model.requests]
    print(json.dumps({"turns": turns, "found": recalls}))


async def _ask(runner: Runner, session_id: str) -> None:
    message = types.Content(role="user", parts=[types.Part(text=ASKED)])
    async for _ in runner.run_async(user_id=USER, session_id=session_id, new_message=message):
        pass


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
