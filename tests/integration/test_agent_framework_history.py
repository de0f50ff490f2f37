"""Conversations of Agent Framework are sessions in the graph: whole, in order, resumed, once, and per user."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra agent-framework is not installed")

from agent_framework import Agent, AgentSession, Content, Message, tool
from benchmarks.wire import Wire
from tests.integration.test_agent_framework import PREFIX, World, settings_over, wire, world  # noqa: F401  (fixtures)
from tests.support.scripted_client import ScriptedClient

from adk_graph_memory import Neo4jSessionService, errors
from adk_graph_memory.maf.history_provider import GraphHistoryProvider
from adk_graph_memory.records.scopes import Scope


async def stored(world: World, session_id: str = "s", user_id: str = "ana") -> list[str]:  # noqa: F811
    messages = await world.history(user_id=user_id).get_messages(session_id)
    return [message.text for message in messages]


async def test_a_conversation_goes_on_in_another_process(world: World) -> None:  # noqa: F811
    for number, reply in enumerate(["Hello Ana.", "You are Ana."]):
        client = ScriptedClient(reply)
        agent = Agent(client=client, context_providers=[world.history()])
        await agent.run(f"Question {number}.", session=world.session())
    assert client.texts() == ["Question 0.", "Hello Ana.", "Question 1."]
    assert await stored(world) == ["Question 0.", "Hello Ana.", "Question 1.", "You are Ana."]


@pytest.mark.slow
async def test_messages_are_kept_whole_and_in_order(world: World) -> None:  # noqa: F811
    @tool(approval_mode="never_require")
    def sky(city: str) -> str:
        """Looks at the sky."""
        return f"dark over {city}"

    call = Content.from_function_call("c1", "sky", arguments='{"city": "Porto"}')
    first = Agent(client=ScriptedClient(call, "It will rain."), context_providers=[world.history()], tools=[sky])
    await first.run("Will it rain in Porto?", session=world.session())
    client = ScriptedClient()
    await Agent(client=client, context_providers=[world.history()]).run("Why?", session=world.session())
    *loaded, question = client.requests[0]
    assert question.text == "Why?"
    assert [message.role for message in loaded] == ["user", "assistant", "tool", "assistant"]
    [called], [result] = loaded[1].contents, loaded[2].contents
    assert (called.call_id, called.name, called.parse_arguments()) == ("c1", "sky", {"city": "Porto"})
    assert (result.call_id, "dark over Porto" in str(result.result)) == ("c1", True)


@pytest.mark.slow
async def test_a_transcript_that_is_sent_again_is_stored_once(world: World) -> None:  # noqa: F811
    history, transcript = world.history(), list[Message]()
    agent = Agent(client=ScriptedClient("Two.", "Yes.", "Two."), context_providers=[history])
    for text in ("How many?", "Sure?", "How many?"):
        transcript.append(Message("user", [text]))
        response = await agent.run(list(transcript), session=world.session())
        transcript += response.messages
    assert await stored(world) == ["How many?", "Two.", "Sure?", "Yes.", "How many?", "Two."]


@pytest.mark.slow
async def test_the_same_question_and_answer_again_are_stored_again(world: World) -> None:  # noqa: F811
    agent = Agent(client=ScriptedClient(default="OK."), context_providers=[world.history()])
    for _ in range(3):
        await agent.run("Yes.", session=world.session())
    assert await stored(world) == ["Yes.", "OK."] * 3


@pytest.mark.slow
async def test_writers_at_the_same_time_lose_nothing(world: World) -> None:  # noqa: F811
    async def run_agent(number: int) -> None:
        agent = Agent(client=ScriptedClient(f"Answer {number}."), context_providers=[world.history()])
        await agent.run(f"Question {number}.", session=world.session())

    await asyncio.gather(*(run_agent(number) for number in range(10)))
    texts = await stored(world)
    assert sorted(texts) == sorted(f"{kind} {number}." for number in range(10) for kind in ("Question", "Answer"))
    for question, answer in zip(texts[::2], texts[1::2], strict=True):
        assert answer == question.replace("Question", "Answer")  # a run is stored in one piece


async def test_sessions_of_two_users_with_one_id_are_apart(world: World) -> None:  # noqa: F811
    agent = Agent(client=ScriptedClient(), context_providers=[world.history()])
    for user_id in ("ana", "bob"):
        await agent.run(f"I am {user_id}.", session=world.session(user_id=user_id))
    assert await stored(world, user_id="bob") == ["I am bob.", "I see."]
    assert await stored(world, user_id="eve") == []


@pytest.mark.slow
async def test_a_log_is_written_and_not_loaded(world: World) -> None:  # noqa: F811
    client = ScriptedClient()
    agent = Agent(client=client, context_providers=[world.history(load_messages=False)])
    for text in ("One.", "Two."):
        await agent.run(text, session=world.session())
    assert client.texts() == ["Two."]
    assert await stored(world) == ["One.", "I see.", "Two.", "I see."]


@pytest.mark.slow
async def test_each_call_of_the_model_is_saved_if_the_agent_wants_it(world: World) -> None:  # noqa: F811
    @tool(approval_mode="never_require")
    def sky() -> str:
        """Looks at the sky."""
        return "dark"

    client = ScriptedClient(Content.from_function_call("c1", "sky", arguments="{}"), "It will rain.")
    agent = Agent(
        client=client,
        context_providers=[world.history()],
        tools=[sky],
        require_per_service_call_history_persistence=True,
    )
    await agent.run("Will it rain?", session=world.session())
    messages = await world.history(user_id="ana").get_messages("s")
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.slow
async def test_a_client_that_stores_by_itself_has_its_history_kept_too(world: World) -> None:  # noqa: F811
    class Storing(ScriptedClient):
        STORES_BY_DEFAULT = True

    client = Storing()
    agent = Agent(client=client, context_providers=[world.history()])
    for text in ("One.", "Two."):
        await agent.run(text, session=world.session())
    assert client.texts() == ["One.", "I see.", "Two."]


async def test_a_session_needs_an_id_and_a_user(world: World) -> None:  # noqa: F811
    with pytest.raises(ValueError, match="session id"):
        await world.history(user_id="ana").get_messages(None)
    with pytest.raises(ValueError, match="session id"):
        await world.history(user_id="ana").save_messages(None, [Message("user", ["Hi."])])
    with pytest.raises(ValueError, match="needs a user id"):
        await world.history().get_messages("s", state={})


@pytest.mark.slow
async def test_every_error_of_saving_reaches_the_caller(world: World, wire: Wire, neo4j_server: Any) -> None:  # noqa: F811
    history = world.history(settings=settings_over(wire, neo4j_server))
    failures = list[int]()
    agent = Agent(client=ScriptedClient(lambda messages: f"Answer to {messages[-1].text}"), context_providers=[history])
    agent.client.default = lambda messages: f"Answer to {messages[-1].text}"
    for number in range(20):
        if number == 8:
            wire.cut()
        if number == 10:
            wire.mend()
        for _ in range(30):
            try:
                await agent.run(f"Number {number}.", session=world.session())
            except errors.DatabaseUnavailable:
                failures.append(number)
                if len(failures) >= 3:
                    wire.mend()
            else:
                break
    assert failures[:1] == [8]
    expected = [text for number in range(20) for text in (f"Number {number}.", f"Answer to Number {number}.")]
    assert await stored(world) == expected


async def test_a_closed_session_takes_no_more_messages(world: World) -> None:  # noqa: F811
    agent = Agent(client=ScriptedClient(), context_providers=[world.history()])
    await agent.run("One.", session=world.session())
    async with Neo4jSessionService(settings=world.settings) as sessions:
        session = await sessions.get_session(app_name=world.app_name, user_id="ana", session_id="s")
        assert session is not None
        await sessions.close_session(session)
    with pytest.raises(errors.SessionClosed, match="'s'"):
        await agent.run("Two.", session=world.session())


async def test_adk_reads_and_continues_such_a_conversation(world: World) -> None:  # noqa: F811
    from google.adk.events import Event
    from google.genai import types

    client = ScriptedClient()
    agent = Agent(client=client, name="companion", context_providers=[world.history()])
    await agent.run("My dog is called Rex.", session=world.session())
    async with Neo4jSessionService(settings=world.settings) as sessions:
        session = await sessions.get_session(app_name=world.app_name, user_id="ana", session_id="s")
        assert session is not None
        said = [(event.author, event.content.parts[0].text) for event in session.events if event.content]
        assert said == [("user", "My dog is called Rex."), ("companion", "I see.")]
        await sessions.append_event(session, Event(author="user", content=types.UserContent("He is three.")))
    await agent.run("Who?", session=world.session())
    assert client.texts() == ["My dog is called Rex.", "I see.", "He is three.", "Who?"]


async def test_a_fact_rests_on_the_message_of_the_session(world: World) -> None:  # noqa: F811
    """Memory is told before the history is saved, and still both speak of one event."""
    history, provider = world.history(), world.provider()
    agent = Agent(client=ScriptedClient(), context_providers=[history, provider])
    for text in ("My dog Rex is afraid of thunder.", "My sister lives in Porto."):
        await agent.run(text, session=world.session())
        await provider.flush()
    connection = world.memory.connection
    await connection.prepare()
    rows = await connection.run_cypher(
        f"MATCH (e:{PREFIX}Event {{scope: $scope}}) "
        f"RETURN e.text AS text, e.seq AS seq, EXISTS {{ (:{PREFIX}Session)-[:HAS_EVENT]->(e) }} AS is_in_session, "
        "e.memory_id IS NOT NULL AS is_remembered, [(e)-[:NEXT]->(next) | next.seq] AS next ORDER BY e.seq",
        {"scope": Scope(world.app_name, "ana").key},
    )
    assert [(row["text"], row["seq"], row["next"]) for row in rows] == [
        ("My dog Rex is afraid of thunder.", 1, [2]),
        ("I see.", 2, [3]),
        ("My sister lives in Porto.", 3, [4]),
        ("I see.", 4, []),
    ]
    assert all(row["is_in_session"] and row["is_remembered"] for row in rows)


async def test_a_message_that_is_no_json_is_refused_and_nothing_of_its_run_is_stored(world: World) -> None:  # noqa: F811
    history = world.history(user_id="ana")
    wrong = Message("user", ["Two."], additional_properties={"x": float("nan")})
    with pytest.raises(errors.InvalidArgument, match="JSON"):
        await history.save_messages("s", [Message("user", ["One."]), wrong])
    assert await stored(world) == []


@pytest.mark.slow
async def test_a_history_works_without_a_block(neo4j_server: Any, app_name: str) -> None:
    settings = neo4j_server.settings(label_prefix=PREFIX)
    history = GraphHistoryProvider(settings=settings, app_name=app_name, user_id="ana")
    await Agent(client=ScriptedClient(), context_providers=[history]).run("Hi.", session=AgentSession(session_id="s"))
    assert len(await history.get_messages("s")) == 2
    await history.close()
    assert len(await history.get_messages("s")) == 2
    await history.close()
