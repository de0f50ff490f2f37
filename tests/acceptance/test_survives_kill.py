"""What was remembered outlives its process, however that ends: here by SIGKILL, with the real embedder."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow

COMMON = """
import asyncio, sys, time
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.tools import load_memory
from google.genai import types
from adk_graph_memory import Limits, Neo4jMemoryService, Neo4jSessionService, Settings
from adk_graph_memory.testing import ScriptedLlm, make_tool_call

uri, user, password, app, lease, more = sys.argv[1:]
settings = Settings(
    uri=uri, username=user, password=password,
    limits=Limits(lease=float(lease), embed_timeout=120),
)
sessions, memory = Neo4jSessionService(settings=settings), Neo4jMemoryService(settings=settings)

async def say(agent, session_id, text):
    await sessions.create_session(app_name=app, user_id="ada", session_id=session_id)
    runner = Runner(agent=agent, app_name=app, session_service=sessions, memory_service=memory)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for _ in runner.run_async(user_id="ada", session_id=session_id, new_message=message):
        pass
"""

TELL = (
    COMMON
    + """
async def main():
    agent = LlmAgent(name="companion", model=ScriptedLlm.from_replies("Noted."))
    await say(agent, "told", "My dog is called Krümel and sleeps in the workshop.")
    session = await sessions.get_session(app_name=app, user_id="ada", session_id="told")
    if more == "while reading":
        async def never(turns, known, context):
            print("READY", flush=True)
            await asyncio.sleep(600)
        memory.memory.engine.extractor.extract = never
    await memory.add_session_to_memory(session)
    print("READY", flush=True)
    time.sleep(600)

asyncio.run(main())
"""
)

ASK = (
    COMMON
    + """
async def main():
    session = await sessions.get_session(app_name=app, user_id="ada", session_id="told")
    if more == "while reading":
        await memory.add_session_to_memory(session)
    search = make_tool_call("load_memory", query="Where does my dog sleep?")
    model = ScriptedLlm.from_replies(search, "In the workshop.")
    await say(LlmAgent(name="companion", model=model, tools=[load_memory]), "asked", "Where does my dog sleep?")
    print(model.requests[1].contents[-1].parts[0].function_response.response)

asyncio.run(main())
"""
)


def command(script: str, server: Any, app_name: str, lease: float, more: str) -> list[str]:
    return [sys.executable, "-c", script, server.uri, *server.auth, app_name, str(lease), more]


def told_and_killed(server: Any, app_name: str, lease: float, more: str) -> None:
    with subprocess.Popen(command(TELL, server, app_name, lease, more), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "READY"
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL


def asked(server: Any, app_name: str, lease: float, more: str) -> str:
    ran = subprocess.run(command(ASK, server, app_name, lease, more), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.full  # test_survives_kill_midway.py kills in the middle too, without the model's load
@pytest.mark.parametrize("more", ["once added", "while reading"])
async def test_a_new_process_recalls_what_a_killed_one_was_told(neo4j_server: Any, app_name: str, more: str) -> None:
    lease = 0.5 if more == "while reading" else 600
    await asyncio.to_thread(told_and_killed, neo4j_server, app_name, lease, more)
    answer = await asyncio.to_thread(asked, neo4j_server, app_name, lease, more)
    assert "My dog is called Krümel and sleeps in the workshop." in answer
