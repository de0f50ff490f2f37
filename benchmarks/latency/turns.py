"""Measure what the plugin that fills memory adds to a turn of a conversation."""

from __future__ import annotations

import asyncio
import statistics
import uuid
from collections.abc import AsyncIterator
from functools import partial

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.genai import types

from adk_graph_memory import Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.adk import session_codec
from adk_graph_memory.adk.plugin import GraphMemoryPlugin
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.testing import ScriptedLlm
from benchmarks.latency.clock import time_call
from benchmarks.latency.memories import Meter
from benchmarks.latency.result import Result
from benchmarks.latency.scale import Scale
from benchmarks.latency.services import USER
from benchmarks.latency.speech import Speaker

QUIET = 2.0
"""Seconds between two blocks of turns, so that what one has left to be read does not slow the next one down."""
PAUSE = 0.1
"""Seconds that the user takes before the next turn; nobody writes faster."""


async def measure_plugin(settings: Settings, scale: Scale) -> AsyncIterator[Result]:
    """Whole turns through a Runner whose model answers at once, blocks with the plugin and without in turn."""
    turns = 2 * scale.calls
    note = "two events a turn; the plugin queues each turn and reads by rules after twenty events, beside the replies"
    async with (
        Neo4jSessionService(settings=settings) as sessions,
        Neo4jMemoryService(settings=settings, model="rules", embedder=Meter()) as memory,
    ):
        await memory.prepare()
        filling = GraphMemoryPlugin(idle=1.0)
        for pause, who, bar in ((PAUSE, f"a user who takes {PAUSE:g} s", 5), (0.0, "a user who takes no time", None)):
            rounds = []
            for _ in range(2 + scale.rounds):
                without = await _time_block(sessions, memory, turns, pause, [])
                rounds.append((await _time_block(sessions, memory, turns, pause, [filling]), without))
            ours, theirs = zip(*rounds[2:], strict=True)
            added = tuple(own - other for own, other in zip(ours, theirs, strict=True))
            what = f"turn with GraphMemoryPlugin, {who}, median of {turns * scale.rounds}"
            yield Result(what, "ms", ours, peer="without", theirs=theirs, note=note)
            yield Result("  added by the plugin", "ms", added, bar)
        await filling.close()


async def _time_block(
    sessions: Neo4jSessionService,
    memory: Neo4jMemoryService,
    turns: int,
    pause: float,
    plugins: list[GraphMemoryPlugin],
) -> float:
    """The median of so many turns of a new session, in milliseconds."""
    name = f"bench_{uuid.uuid4().hex[:12]}"
    agent = LlmAgent(name="companion", model=ScriptedLlm.from_replies(*["I see."] * turns))
    app = App(name=name, root_agent=agent, plugins=list(plugins))
    runner = Runner(app=app, session_service=sessions, memory_service=memory)
    session = await sessions.create_session(app_name=name, user_id=USER)
    spent = []
    for event in Speaker(len(name)).make_events(turns):
        spent.append(await time_call(partial(_say, runner, session.id, session_codec.get_content_text(event.content))))
        await asyncio.sleep(pause)
    await asyncio.sleep(QUIET)
    return statistics.median(spent)


async def _say(runner: Runner, session_id: str, text: str) -> None:
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for _ in runner.run_async(user_id=USER, session_id=session_id, new_message=message):
        pass
