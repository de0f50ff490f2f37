"""Where and when: the offset in which words were said, how exactly a date was, and plans whose day is over."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService, Turn, errors
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.adk.plugin import describe_session
from adk_graph_memory.graph import ingest_queue, listings
from adk_graph_memory.memory.background import TurnBuffer
from adk_graph_memory.models import prompts
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

PREFIX = "TestHash"
NOTHING = '{"entities": [], "facts": []}'
LATE = datetime.fromisoformat("2024-06-10T23:30:00-03:00")
SAO_PAULO = {"user:timezone": "America/Sao_Paulo"}
Make = Callable[..., Neo4jMemoryService]


@pytest.fixture
async def make(neo4j_server: Any) -> AsyncIterator[Make]:
    made: list[Neo4jMemoryService] = []

    def service(*replies: Any, settings: dict[str, Any] | None = None, **chosen: Any) -> Neo4jMemoryService:
        given = neo4j_server.settings(label_prefix=PREFIX, **(settings or {}))
        model = ScriptedLlm.from_replies(*replies) if replies else "rules"
        made.append(Neo4jMemoryService(settings=given, model=model, embedder=HashEmbedder(), **chosen))
        return made[-1]

    yield service
    for resource in made:
        await resource.close()


def session(app_name: str, *texts: str, at: datetime = LATE, **state: str) -> Session:
    events = [event(f"e{n}", text, at + timedelta(seconds=n)) for n, text in enumerate(texts)]
    return Session(id="s", app_name=app_name, user_id="ada", events=events, state=state)


def event(id: str, text: str, at: datetime = LATE) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(id=id, author="user", timestamp=at.timestamp(), content=content)


def asked(service: Neo4jMemoryService) -> str:
    """All that the model was asked."""
    return str(service.memory.engine.language_model.requests)  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "chosen", "setting", "hour"),
    [
        (SAO_PAULO, "Asia/Tokyo", "Europe/Berlin", "2024-06-10T23:30:00-03:00"),
        ({}, "Asia/Tokyo", "Europe/Berlin", "2024-06-11T11:30:00+09:00"),
        ({}, None, "Europe/Berlin", "2024-06-11T04:30:00+02:00"),
        ({}, None, None, "2024-06-11T02:30:00+00:00"),
        ({"user:timezone": "Mars/Olympus"}, None, "Europe/Berlin", "2024-06-11T04:30:00+02:00"),
    ],
)
async def test_the_zone_is_the_state_s_or_the_caller_s_or_the_setting_s(
    make: Make, app_name: str, state: dict[str, str], chosen: str | None, setting: str | None, hour: str
) -> None:
    settings = {"timezone": setting} if setting else {}
    service = make(NOTHING, settings=settings, timezone=chosen)
    await service.remember(session(app_name, "I saw a heron yesterday.", **state))
    [heron] = await service.memory.recall("heron", app_name=app_name, user_id="ada")
    assert heron.at is not None
    assert heron.at.isoformat() == hour
    answer = await service.search_memory(app_name=app_name, user_id="ada", query="heron")
    assert answer.memories[0].timestamp == hour


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "offset"), [(None, -3), ("Asia/Tokyo", 9)])
async def test_where_no_zone_is_named_the_last_offset_is_the_users(
    make: Make, app_name: str, chosen: str | None, offset: int
) -> None:
    service, whose = make(timezone=chosen), {"app_name": app_name, "user_id": "ada"}
    await service.memory.remember([Turn("t", "user", "I saw a heron.", LATE)], session_id="s", **whose)
    await service.add_events_to_memory(events=[event("e", "I saw an egret.")], **whose)
    [egret] = [memory for memory in await service.memory.recall("egret", **whose) if "egret" in memory.text]
    assert egret.at is not None
    assert egret.at.utcoffset() == timedelta(hours=offset)


@pytest.mark.slow
async def test_a_zone_that_changes_counts_from_the_next_events_on(make: Make, app_name: str, neo4j_server: Any) -> None:
    service, whose = make(), {"app_name": app_name, "user_id": "ada"}
    async with Neo4jSessionService(settings=neo4j_server.settings(label_prefix=PREFIX)) as sessions:
        for zone, bird in (("Asia/Tokyo", "heron"), ("America/Sao_Paulo", "egret")):
            await sessions.create_session(state={"user:timezone": zone}, **whose)
            await service.add_events_to_memory(events=[event(bird, f"I saw a {bird}.")], **whose)
    dates = {memory.source_event_ids[0]: memory.at for memory in await service.memory.recall("heron egret", **whose)}
    hours = {id: at and (at.utcoffset() or timedelta()) / timedelta(hours=1) for id, at in dates.items()}
    assert hours == {"heron": 9, "egret": -3}


@pytest.mark.slow
async def test_what_is_queued_keeps_its_offset_for_whoever_reads_it(make: Make, app_name: str) -> None:
    session_in_zone = session(app_name, "I saw a heron yesterday.", **SAO_PAULO)
    queuing, outbox = make(), TurnBuffer()
    key, event_ids, split_turns = describe_session(queuing, session_in_zone)
    assert outbox.add_session(key, event_ids, split_turns)
    letter = outbox.take_turns(key)
    assert letter is not None
    await queuing.memory.user(app_name, "ada").enqueue(letter.turns, session_id="s")
    reading = make(NOTHING)
    [pending] = await ingest_queue.fetch_pending_ingests(reading.memory.connection, app_name=app_name)
    assert [turn.at.isoformat() for turn in pending.turns] == [LATE.isoformat()]
    await reading.memory.resume(app_name=app_name)
    assert "2024-06-10" in asked(reading)
    assert "2024-06-11" not in asked(reading)


async def test_words_before_a_window_are_shown_in_their_own_offset(make: Make, app_name: str) -> None:
    service = make(NOTHING, NOTHING)
    await service.remember(session(app_name, "I saw a heron.", **SAO_PAULO))
    await service.remember(session(app_name, "I saw a heron.", "It was grey.", **SAO_PAULO))
    assert "2024-06-11" not in asked(service)


async def test_yesterday_in_a_question_is_the_user_s(
    make: Make, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make()
    await service.remember(session(app_name, "I keep two goats.", **SAO_PAULO))
    retriever = await service.memory.user(app_name, "ada").make_retriever()
    [span] = retriever.parse_question("What did I do yesterday?").time_spans
    now = datetime.now(UTC).astimezone(LATE.tzinfo)
    assert span.start.utcoffset() == timedelta(hours=-3)
    assert timedelta(days=1) <= now - span.start <= timedelta(days=2, minutes=5)


@pytest.mark.slow
async def test_the_state_of_sessions_in_this_graph_tells_the_zone_where_no_session_is_at_hand(
    make: Make, app_name: str, neo4j_server: Any
) -> None:
    service = make()
    owner = {"app_name": app_name, "user_id": "ada"}
    async with Neo4jSessionService(settings=neo4j_server.settings(label_prefix=PREFIX)) as sessions:
        await sessions.create_session(**owner, state=dict(SAO_PAULO))
    await service.add_events_to_memory(**owner, events=[event("e1", "I saw a heron.")], session_id="s")
    entry = MemoryEntry(
        content=types.Content(parts=[types.Part(text="Herons eat frogs.")]), timestamp="2024-06-10T08:00"
    )
    await service.add_memory(**owner, memories=[entry])
    memories = await service.memory.recall("heron herons frogs", **owner)
    assert {memory.text: memory.at.isoformat() for memory in memories if memory.at} == {
        "I saw a heron.": "2024-06-10T23:30:00-03:00",
        "Herons eat frogs.": "2024-06-10T08:00:00-03:00",
    }


async def test_a_fact_s_words_come_back_in_the_offset_in_which_they_were_said(make: Make, app_name: str) -> None:
    fact = {"ref": 1, "subject": 1, "predicate": "keeps", "text": "Ada keeps bees", "quote": "keep bees", "turns": [0]}
    service = make(json.dumps({"entities": [{"ref": 1, "name": "user"}], "facts": [fact]}))
    memory = service.memory
    turn = Turn("t", "user", "I keep bees", LATE)
    await memory.remember([turn], app_name=app_name, user_id="ada", session_id="s")
    [stored] = await listings.fetch_facts(
        memory.connection.user(Scope(app_name, "ada")), now=datetime.now(UTC), limit=5
    )
    assert (stored.at.isoformat(), stored.sources[0].at.isoformat()) == (LATE.isoformat(), LATE.isoformat())


def test_a_zone_that_there_is_not_is_refused_at_once() -> None:
    with pytest.raises(errors.UnknownTimezone, match=r"'Mars/Olympus' is not a time zone.*Europe/Berlin"):
        GraphMemory(timezone="Mars/Olympus")


# -- how exactly, and what of it is so now ---------------------------------------------------------------------

SAID = {
    "Ada has worked at Bolt since May 2024": {"valid_from": "2024-05"},
    "Ada plans to fly to Lisbon": {"valid_from": "2024-10-24", "modality": "planned"},
    "Ada plans to learn the cello": {"modality": "planned"},
    "Ada walked in the Alps": {"valid_from": "2024-02-03", "valid_to": "2024-02-09"},
    "Ada hiked in the Andes": {"valid_from": "2024-06-03~", "valid_to": "2024-06-03~"},
    "Ada lived in Porto": {"valid_to": "2019"},
    "Ada rents the flat": {"valid_from": "2024-06-01", "valid_to": "2024-05-01"},
}
NOVEMBER = datetime.fromisoformat("2024-11-02T09:00:00-03:00")


async def told(make: Make, app_name: str) -> GraphMemory:
    facts = [
        {"ref": n, "subject": 1, "predicate": f"p{n}", "text": text, "quote": f"quote {n}", "turns": [0], **more}
        for n, (text, more) in enumerate(SAID.items())
    ]
    memory = make(json.dumps({"entities": [{"ref": 1, "name": "Ada"}], "facts": facts})).memory
    turn = Turn("t", "user", ". ".join(f"quote {n}" for n in range(len(SAID))), LATE)
    report = await memory.remember([turn], app_name=app_name, user_id="ada", session_id="s")
    assert report.dropped == {"end before its beginning": 1}
    return memory


async def test_what_an_agent_reads_is_as_exact_as_what_was_said(make: Make, app_name: str) -> None:
    memory = await told(make, app_name)
    memories = await memory.recall("Ada", app_name=app_name, user_id="ada", now=NOVEMBER)
    by_text = {memory.text: memory for memory in memories}
    dates = {text: memory_codec.make_memory_entry(result).custom_metadata for text, result in by_text.items()}
    shown = {text: (given.get("valid_from"), given.get("valid_to")) for text, given in dates.items() if given}
    assert shown["Ada has worked at Bolt since May 2024"] == ("2024-05", None)
    assert shown["Ada walked in the Alps"] == ("2024-02-03", "2024-02-09")
    assert shown["Ada hiked in the Andes"] == ("2024-06-03~", "2024-06-03~")
    assert "(about 3 June 2024" in by_text["Ada hiked in the Andes"].prompt_text
    assert shown["Ada lived in Porto"] == (None, "2019")
    assert shown["Ada rents the flat"] == ("2024-06-01", None)
    bolt = by_text["Ada has worked at Bolt since May 2024"]
    assert (bolt.valid_from_precision, bolt.valid_to_precision, bolt.modality) == ("month", None, "asserted")


@pytest.mark.slow
async def test_a_plan_whose_day_is_over_is_recalled_as_such(make: Make, app_name: str) -> None:
    memory = await told(make, app_name)

    async def shown(now: datetime) -> dict[str, str]:
        memories = await memory.recall("Ada plans", app_name=app_name, user_id="ada", now=now)
        return {result.text: result.prompt_text for result in memories if result.modality == "planned"}

    lisbon, cello = "Ada plans to fly to Lisbon", "Ada plans to learn the cello"
    after = await shown(NOVEMBER)
    assert after[lisbon] == f"{lisbon} (planned for 24 October 2024; nothing was heard of it since)"
    assert after[cello] == f"{cello} (planned; spoken of on 10 June 2024)"
    assert (await shown(LATE))[lisbon] == f"{lisbon} (planned for 24 October 2024)"


async def test_what_was_to_last_until_a_day_is_no_longer_so_after_it(make: Make, app_name: str) -> None:
    statement = "I work at the mill until the end of July"
    fact = {
        "ref": 1,
        "subject": 1,
        "predicate": "works_at",
        "text": "Ada works at the mill",
        "quote": statement,
        "turns": [0],
    }
    reply = {"entities": [{"ref": 1, "name": "Ada"}], "facts": [{**fact, "valid_to": "2024-07"}]}
    memory = make(json.dumps(reply)).memory
    await memory.remember([Turn("t", "user", statement, LATE)], app_name=app_name, user_id="ada", session_id="s")

    async def shown(now: datetime) -> set[str]:
        memories = await memory.recall("Where does Ada work?", app_name=app_name, user_id="ada", now=now)
        return {result.prompt_text for result in memories if result.kind == "fact"}

    assert await shown(LATE) == {"Ada works at the mill (until July 2024)"}
    assert await shown(NOVEMBER) == {"Ada works at the mill (until July 2024; no longer so)"}


async def test_what_was_planned_and_what_happened_is_known_apart_from_what_is_so(make: Make, app_name: str) -> None:
    memory = await told(make, app_name)
    known = await listings.fetch_facts(memory.connection.user(Scope(app_name, "ada")), now=NOVEMBER, limit=20)
    assert {fact.text: (fact.status, fact.holds) for fact in known} == {
        "Ada has worked at Bolt since May 2024": ("holds", True),
        "Ada plans to fly to Lisbon": ("lapsed", False),
        "Ada plans to learn the cello": ("planned", True),
        "Ada walked in the Alps": ("happened", False),
        "Ada hiked in the Andes": ("happened", False),
        "Ada rents the flat": ("holds", True),
    }
    everything = await listings.fetch_facts(
        memory.connection.user(Scope(app_name, "ada")), now=NOVEMBER, past=True, limit=20
    )
    assert {one.text for one in everything} - {fact.text for fact in known} == {"Ada lived in Porto"}


@pytest.mark.slow
async def test_a_precision_outlives_the_next_reading(make: Make, app_name: str) -> None:
    memory = await told(make, app_name)
    fact = {"ref": 1, "subject": 1, "predicate": "p0", "text": next(iter(SAID)), "quote": "quote 0", "turns": [0]}
    again = make(
        json.dumps({"entities": [{"ref": 1, "name": "Ada"}], "facts": [{**fact, "valid_from": "2024-05"}]}),
        json.dumps({"ops": []}),
    ).memory
    await again.remember([Turn("t2", "user", "quote 0", NOVEMBER)], app_name=app_name, user_id="ada", session_id="s2")
    memories = await memory.recall("Bolt", app_name=app_name, user_id="ada")
    [bolt] = [memory for memory in memories if memory.kind == "fact" and "Bolt" in memory.text]
    assert (bolt.valid_from_precision, len(bolt.source_event_ids)) == ("month", 2)


@pytest.mark.slow
async def test_the_judge_sees_the_local_day_and_hour(make: Make, app_name: str) -> None:
    await told(make, app_name)
    fact = {"ref": 1, "subject": 1, "predicate": "p0", "text": "Ada left Bolt", "quote": "left Bolt", "turns": [0]}
    service = make(json.dumps({"entities": [{"ref": 1, "name": "Ada"}], "facts": [fact]}), json.dumps({"ops": []}))
    turn = Turn("t2", "user", "I left Bolt", NOVEMBER)
    await service.memory.remember([turn], app_name=app_name, user_id="ada", session_id="s2")
    request = service.memory.engine.language_model.requests[1]  # type: ignore[union-attr]
    lines = {line["text"]: line for frame in ("known", "new") for line in prompts.decode_lines(_prompt(request), frame)}
    assert lines["Ada left Bolt"]["said"] == "2024-11-02 Sat 09:00"
    bolt = lines["Ada has worked at Bolt since May 2024"]
    assert (bolt["said"], bolt["valid_from"]) == ("2024-06-10 Mon 23:30", "2024-05")
    assert lines["Ada lived in Porto"]["valid_to"] == "2019"


def _prompt(request: Any) -> str:
    return str(request.contents[0].parts[0].text)


# -- what ends what is so --------------------------------------------------------------------------------------


def lives(city: str, quote: str, **more: Any) -> dict[str, Any]:
    return {
        "ref": 1,
        "subject": 1,
        "predicate": "lives_in",
        "object": 2,
        "text": f"{city}: {quote}",
        "quote": quote,
        **more,
    }


def reading(city: str, *facts: dict[str, Any]) -> str:
    entities = [{"ref": 1, "name": "Ada", "type": "person"}, {"ref": 2, "name": city, "type": "place"}]
    return json.dumps({"entities": entities, "facts": [{"turns": [0], **fact} for fact in facts]})


def judged(op: str, target: str) -> Callable[[Any], str]:
    """A judge by whom the first new fact ends the known one of this quote."""

    def answer(request: Any) -> str:
        known, new = (prompts.decode_lines(_prompt(request), frame) for frame in ("known", "new"))
        [ended] = [line for line in known if line["quote"] == target]
        quotes = [new[0]["quote"], target]
        ops = [
            {"fact": new[0]["number"], "op": op, "targets": [ended["number"]], "quotes": quotes, "reason": "So it is."}
        ]
        return json.dumps({"ops": ops})

    return answer


PORTO, ROME, OFF = "I live in Porto", "I move to Rome in May, it is signed", "the move is off"
MAY = {"modality": "planned", "valid_from": "2025-05"}
HOME = """
MATCH (f:@Fact {scope: $scope}) WHERE $text IN [(f)-[s:SUPPORTED_BY]->() | s.quote]
RETURN f.state AS state, f.open AS open, f.valid_to AS until, f.valid_to_precision AS precision,
       COLLECT { MATCH (f)<-[s:SUPERSEDES|WOULD_SUPERSEDE]-() RETURN type(s) } AS ends,
       COLLECT { MATCH (f)-[:HAS_REVISION]->(r) RETURN r.op ORDER BY r.op } AS revisions
"""


async def remembered(memory: GraphMemory, app_name: str, *texts: str, month: int) -> None:
    turns = [
        Turn(f"t{month}-{n}", "user", text, datetime(2025, month, 3, 9, n, tzinfo=UTC)) for n, text in enumerate(texts)
    ]
    await memory.remember(turns, app_name=app_name, user_id="ada", session_id=f"s{month}")


async def held(memory: GraphMemory, app_name: str, quote: str) -> dict[str, Any]:
    driver = await memory.connection.get_driver()
    scope = Scope(app_name, "ada").key
    [row], _, _ = await driver.execute_query(HOME.replace("@", PREFIX), scope=scope, text=quote)
    return {**row, "until": row["until"] and str(row["until"])[:10]}


@pytest.mark.slow
async def test_a_plan_that_is_called_off_gives_back_what_it_ended(make: Make, app_name: str) -> None:
    memory = make(
        reading("Porto", lives("Ada", PORTO)),
        reading("Rome", lives("Ada", ROME, **MAY)),
        judged("SUPERSEDE", PORTO),
        reading("Rome", lives("Ada", OFF, modality="negated")),
        judged("SUPERSEDE", ROME),
        reading("Rome", {**lives("Ada", ROME, **MAY), "quote": "it is signed"}),
    ).memory
    await remembered(memory, app_name, PORTO, month=1)
    await remembered(memory, app_name, ROME, month=2)
    porto = await held(memory, app_name, PORTO)
    assert (porto["state"], porto["until"], porto["precision"]) == ("superseded", "2025-05-01", "month")
    await remembered(memory, app_name, OFF, month=3)
    porto = await held(memory, app_name, PORTO)
    assert porto == {
        "state": "current",
        "open": True,
        "until": None,
        "precision": None,
        "ends": ["WOULD_SUPERSEDE"],
        "revisions": ["REOPEN", "SUPERSEDE"],
    }
    [found] = [
        result for result in await memory.recall("Porto", app_name=app_name, user_id="ada") if PORTO in result.text
    ]
    assert (found.is_current, found.superseded_by) == (True, ())
    await remembered(memory, app_name, "Rome again: it is signed", month=4)
    porto = await held(memory, app_name, PORTO)
    assert (porto["state"], porto["until"], sorted(porto["ends"])) == (
        "superseded",
        "2025-05-01",
        ["SUPERSEDES", "WOULD_SUPERSEDE"],
    )


@pytest.mark.slow
async def test_what_came_of_a_plan_tells_the_day_and_what_rested_on_a_job_ended_with_it(
    make: Make, app_name: str
) -> None:
    russafa, valencia = "I am going to live in Russafa from August", "I have lived in Valencia since 8 August"
    memory = make(
        reading("Moabit", lives("Ada", "I live in Moabit")),
        reading("Russafa", lives("Ada", russafa, modality="planned", valid_from="2025-08")),
        judged("SUPERSEDE", "I live in Moabit"),
        reading("Valencia", lives("Ada", valencia, valid_from="2025-08-08")),
        judged("SUPERSEDE", russafa),
    ).memory
    await remembered(memory, app_name, "I live in Moabit", month=5)
    await remembered(memory, app_name, russafa, month=6)
    assert (await held(memory, app_name, "I live in Moabit"))["until"] == "2025-08-01"
    await remembered(memory, app_name, valencia, month=9)
    moabit = await held(memory, app_name, "I live in Moabit")
    assert (moabit["until"], moabit["precision"], moabit["ends"]) == ("2025-08-08", "day", ["SUPERSEDES"])


@pytest.mark.slow
async def test_what_was_superseded_ended_with_what_it_rested_on(make: Make, app_name: str) -> None:
    job, office, next_job = (
        "I work at T until 31 July",
        "Anton shares my office at T",
        "I have worked at V since September",
    )
    works = {"predicate": "works_at", "valid_to": "2025-07-31"}
    shares = {"ref": 2, "predicate": "shares_office", "depends_on": [1], "turns": [1]}
    memory = make(
        reading("T", lives("Ada", job, **works), lives("Ada", office, **shares)),
        reading("V", lives("Ada", next_job, predicate="works_at", valid_from="2025-09-01")),
        judged("SUPERSEDE", office),
    ).memory
    await remembered(memory, app_name, job, office, month=5)
    await remembered(memory, app_name, next_job, month=10)
    fact = await held(memory, app_name, office)
    assert (fact["state"], fact["until"], fact["precision"]) == ("superseded", "2025-08-01", "day")
