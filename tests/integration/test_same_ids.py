"""Two users whose sessions, events, facts, entities and artifacts have the same ids: nothing of one reaches the other.

Both live the same life, step by step, and say a word of their own in all of it. A statement that forgets its scope in
any pattern changes the other's nodes, returns the other's word, or meets two nodes where there is one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types
from neo4j import AsyncDriver, AsyncGraphDatabase
from tests.support.ingests import fetch_ingests

from adk_graph_memory import Neo4jArtifactService, Neo4jMemoryService, Neo4jSessionService, errors
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.graph import ingest_queue, listings, writing
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.memory.rewriting import Rewriter
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

pytestmark = pytest.mark.slow

PREFIX = "TestHash"
NOON = 1_780_000_000.0
NOTHING = '{"entities": [], "facts": []}'
NO_OPS = '{"ops": []}'
VEGAN, SOUP, STEAK = "I am a vegan", "I cook without cream", "I eat steak again"
ENDS = json.dumps({"ops": [{"fact": 0, "op": "SUPERSEDE", "targets": [1], "quotes": [STEAK, VEGAN]}]})
ONE = json.dumps({"same": [{"name": 0, "known": 0}]})

SNAPSHOT = """
MATCH (n {scope: $scope})
OPTIONAL MATCH (n)-[r]-(m)
WITH n, r, m ORDER BY elementId(r)
RETURN elementId(n) AS id, labels(n) AS labels, properties(n) AS properties,
       collect([elementId(r), type(r), properties(r), elementId(m), m.scope = n.scope]) AS edges
ORDER BY id
"""


class Moody(HashEmbedder):
    """Takes its user's own word for any other, so that both users' texts have the same vectors; may be out of order."""

    __module__, __qualname__ = HashEmbedder.__module__, HashEmbedder.__qualname__  # as the database knows it

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word, self.works, self.heard = word, True, list[str]()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if not self.works:
            raise ConnectionError("no embedder today")
        self.heard += texts
        return super().embed_documents([text.replace(self._word, "word") for text in texts])


class Life:
    """One of the users, with services of their own."""

    def __init__(self, settings: Any, app_name: str, word: str, driver: AsyncDriver) -> None:
        self.owner = {"app_name": app_name, "user_id": word}
        self.scope, self.word, self._driver = Scope(app_name, word), word, driver
        self.model, self.embedder = ScriptedLlm(), Moody(word)
        self.service = Neo4jMemoryService(settings=settings, model=self.model, embedder=self.embedder)
        self.memory = self.service.memory
        self.sessions = Neo4jSessionService(settings=settings)
        self.artifacts = Neo4jArtifactService(settings=settings)
        self.seen: Any = None
        self.kept: Any = None

    def event(self, text: str, id: str, day: int = 0, author: str = "user", **fields: Any) -> Event:
        content = types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=text)])
        return Event(
            id=id, author=author, invocation_id="i", content=content, timestamp=NOON + 86_400 * day + len(id), **fields
        )

    async def remember(self, *replies: Any, session: Session) -> Any:
        """What the model was asked while the session was read, and what the report says."""
        asked = len(self.model.requests)
        self.model._replies = [*replies, *[NO_OPS] * 3]  # whatever the judge is asked beyond the script, it leaves
        report = await self.service.remember(session)
        prompts = [request.contents[0].parts[0].text for request in self.model.requests[asked:]]
        return prompts, report.facts, report.entities_new, report.turns, report.embedded, report.forgotten

    async def remember_events(self, *replies: Any, session_id: str, events: list[Event]) -> Any:
        return await self.remember(*replies, session=Session(id=session_id, events=events, **self.owner))

    async def load(self, id: str = "s") -> Session:
        session = await self.sessions.get_session(session_id=id, **self.owner)
        assert session is not None
        return session

    async def snapshot(self) -> list[Any]:
        """All nodes of the user with their properties and relationships, also those that lead to somebody else's."""
        records, _, _ = await self._driver.execute_query(SNAPSHOT, scope=self.scope.key)
        return [record.data() for record in records]

    async def read_all(self) -> Any:
        """What every statement that reads returns of the user, but for generated ids and the time of day."""
        connection, now = self.memory.connection, datetime(2027, 1, 1, tzinfo=UTC)
        await self.service.prepare()
        stored = await self.sessions.list_sessions(**self.owner)
        sessions = [await self.load(session.id) for session in stored.sessions]
        facts = await listings.fetch_facts(connection.user(self.scope), now=now, past=True, limit=99)
        entities = await listings.fetch_entities(connection.user(self.scope), now=now, limit=99)
        changed = await writing.fetch_changed_facts(connection.user(self.scope))
        found = await self.memory.recall("Who eats steak with Aino?", limit=99, token_budget=9_999, **self.owner)
        self.memory.engine.speakers.drop_outdated(self.scope, None)
        names = await self.artifacts.list_artifact_keys(session_id="s", **self.owner)
        return {
            "sessions": [(session.id, session.state, dump(session.events)) for session in sessions],
            "listed": [(session.id, session.state) for session in stored.sessions],
            "user": await self.sessions.get_user_state(**self.owner),
            "events": dump((await self.sessions.list_events(session_id="s", **self.owner)).events),
            "facts": [asdict(fact) for fact in facts],
            "facts after": [
                fact.text
                for first in facts[:1]
                for fact in await listings.fetch_facts(
                    connection.user(self.scope), now=now, past=True, limit=99, after=first.id
                )
            ],
            "about": [
                fact.text
                for fact in await listings.fetch_facts(connection.user(self.scope), now=now, about="Aino", limit=99)
            ],
            "entities": [asdict(entity) for entity in entities],
            "entities after": [
                entity.name
                for first in entities[:1]
                for entity in await listings.fetch_entities(
                    connection.user(self.scope), now=now, limit=99, after=first.key
                )
            ],
            "changed": [{**row, "quotes": sorted(row["quotes"])} for row in changed],
            "counts": await writing.count_memories(connection.user(self.scope)),
            "ingests": [
                (row["session_id"], row["state"], row["reason"]) for row in await fetch_ingests(connection, self.scope)
            ],
            "pending": [
                (row.session_id, row.turns, row.attempts)
                for row in await ingest_queue.fetch_pending_ingests(connection, **self.owner)
            ],
            # The score counts how rare a word is among all that is in the index, whoever it belongs to.
            "found": sorted(str(replace(memory, score=0.0)) for memory in found),
            "speakers": await self.memory.engine.speakers.find_speaker_profile(self.scope),
            "artifacts": [await self.read_artifact(name) for name in names],
        }

    async def read_artifact(self, name: str) -> Any:
        place = {"filename": name, "session_id": "s", **self.owner}
        part = await self.artifacts.load_artifact(**place)
        return name, part, await self.artifacts.list_versions(**place)

    async def close(self) -> None:
        for service in (self.service, self.sessions, self.artifacts):
            await service.close()


def dump(events: list[Event]) -> list[Any]:
    return [(event.author, event.content, event.actions.state_delta) for event in events]


def reply(*facts: dict[str, Any], aliases: tuple[str, ...] = ()) -> str:
    entities = [{"ref": 1, "name": "user", "type": "person", "aliases": aliases}]
    given = [{"ref": n, "subject": 1, "predicate": "eats", "turns": [0], **fact} for n, fact in enumerate(facts)]
    return json.dumps({"entities": entities, "facts": given})


def make_fact(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "quote": text, **more}


def about(name: str, text: str, word: str, *, aliases: tuple[str, ...] = (), beside: str = "Aino") -> str:
    entities = [{"ref": 1, "name": name, "type": "person", "aliases": aliases}]
    entities += [{"ref": 2, "name": beside, "about": word}]
    fact = {"subject": 1, "predicate": "states", "object": 2, "text": text, "quote": text, "turns": [0]}
    return json.dumps({"entities": entities, "facts": [fact]})


# --- what both go through -----------------------------------------------------------------------------------


async def talk(life: Life) -> Any:
    state = {"word": life.word, "user:word": life.word, "user:timezone": "Asia/Tokyo"}
    session = await life.sessions.create_session(session_id="s", state=state, **life.owner)
    for number, text in enumerate((VEGAN, SOUP)):
        await life.sessions.append_event(session, life.event(text, f"e{number}"))
    actions = EventActions(state_delta={"said": life.word, "user:said": life.word})
    await life.sessions.append_event(session, life.event("I see", "e2", author="companion", actions=actions))


async def say_ones_own_word(life: Life) -> Any:
    text = f"My word is {life.word}"
    return await life.remember_events(reply(make_fact("My word is")), session_id="own", events=[life.event(text, "e0")])


async def read_the_session(life: Life) -> Any:
    soup = make_fact("I cook soup", quote=SOUP, predicate="cooks", turns=[1], depends_on=[0])
    return await life.remember(reply(make_fact(VEGAN), soup, aliases=(life.word,)), session=await life.load())


async def change_ones_mind(life: Life) -> Any:
    session = await life.load()
    await life.sessions.append_event(session, life.event(STEAK, "e3", 30))
    return await life.remember(reply(make_fact(STEAK)), ENDS, session=session)


async def take_two_for_one(life: Life) -> Any:
    heard = [
        ("Kröte", "keeps bees", ()),
        ("Franziska Vogt", "sells honey", ()),
        ("Franziska Vogt", "swims", ("Kröte",)),
    ]
    return [
        await life.remember_events(
            *(about(name, text, life.word, aliases=aliases), *([ONE] if aliases else [])),
            session_id=f"m{day}",
            events=[life.event(f"{name}, or {aliases[0]}, {text}" if aliases else text, "e0", day)],
        )
        for day, (name, text, aliases) in enumerate(heard)
    ]


async def add_metadata(life: Life) -> Any:
    events = [life.event("keeps bees", "e0")]
    await life.service.add_events_to_memory(
        events=events, session_id="m0", custom_metadata={"note": life.word}, **life.owner
    )


async def say_a_sentence(life: Life) -> Any:
    events = [life.event("I row to Aino", "e0", 3)]
    return await life.remember_events(reply(make_fact("I row to Aino")), session_id="edit", events=events)


async def edit_it(life: Life) -> Any:
    events = [life.event("I walk to Aino", "e0", 3)]
    return await life.remember_events(reply(make_fact("I walk to Aino")), session_id="edit", events=events)


async def fail(life: Life) -> Any:
    with pytest.raises(errors.ModelFailed):
        await life.remember_events(OSError("down"), session_id="p", events=[life.event("I paint", "e0", 4)])


async def go_on(life: Life) -> Any:
    life.model._replies = [reply(make_fact("I paint")), NO_OPS]
    return [report.facts for report in await life.memory.resume(**life.owner)]


async def lease(life: Life) -> Any:
    """Under a token that both have, as only the ids of two processes can be alike."""
    turns, _ = memory_codec.split_rewound([life.event("I knit", "e0", 5)], zone=UTC)
    results = []
    for token in ("token", "another"):
        leases = await ingest_queue.lease_turns(
            life.memory.connection.user(life.scope),
            "leased",
            turns,
            split=lambda turns: [turns],
            lease=token,
            now=NOON,
            lease_seconds=60,
            metadata=JsonMapDelta(),
        )
        results += [len(leases.windows), leases.busy]
    return tuple(results)


async def release(life: Life) -> Any:
    await ingest_queue.release_lease(life.memory.connection.user(life.scope), "token", "given up")


async def leave_a_request_behind(life: Life) -> Any:
    with pytest.raises(errors.ModelFailed):
        await life.remember_events(OSError("down"), session_id="q", events=[life.event("I sing", "e0", 5)])
    both = [life.event("I sing", "e0", 5), life.event("I hum", "e1", 5)]
    return await life.remember_events(NOTHING, session_id="q", events=both)


async def lose_the_embedder(life: Life) -> Any:
    life.embedder.works = False
    events = [life.event(f"I sew {life.word}", "e0", 6)]
    return await life.remember_events(reply(make_fact("I sew")), session_id="v", events=events)


async def embed_later(life: Life) -> Any:
    life.embedder.works = True
    return await life.remember_events(NOTHING, session_id="w", events=[life.event("And more", "e0", 6)])


async def go_on_talking(life: Life) -> Any:
    """In a session that is stored here and in one that is not: both prompts show the turns before."""
    session = await life.load()
    await life.sessions.append_event(session, life.event("It is late", "e4", 30))
    events = [life.event("keeps bees", "e0"), life.event("many bees", "e1")]
    return (
        await life.remember(NOTHING, session=session),
        await life.remember_events(NOTHING, session_id="m0", events=events),
    )


async def state_facts(life: Life) -> Any:
    content = types.Content(parts=[types.Part(text="Aino likes plums.")])
    entry = MemoryEntry(id="plums", content=content, timestamp="2026-05-04T12:00:00+00:00")
    for key in ("first", "second"):
        await life.service.add_memory(memories=[entry], custom_metadata={key: life.word}, **life.owner)


async def save_artifacts(life: Life) -> Any:
    versions = []
    for name, text in (("note.txt", "note"), ("user:mine.txt", "mine")):
        part = types.Part(inline_data=types.Blob(data=f"{text} {life.word}".encode(), mime_type="text/plain"))
        place = {"filename": name, "session_id": "s", **life.owner}
        versions.append(await life.artifacts.save_artifact(artifact=part, **place))
    return versions


async def drop_a_key(life: Life) -> Any:
    await life.sessions.delete_state_keys(await life.load(), ["said", "user:said"])


async def part_the_two(life: Life) -> Any:
    events = [life.event("paints", "e0", 7)]
    return await life.remember_events(
        about("Kröte", "paints", "", beside="Franziska Vogt"), session_id="m5", events=events
    )


async def ask_to_forget(life: Life) -> Any:
    events = [life.event("I owe Tom", "e0", 8), life.event("Forget that", "e1", 8)]
    asks = json.dumps({"forget": [{"request": 1, "turns": [0, 1]}]})
    return await life.remember_events(asks, session_id="f", events=events)


async def close_the_session(life: Life) -> Any:
    session = await life.load()
    await life.sessions.close_session(session)
    with pytest.raises(errors.SessionClosed):
        await life.sessions.append_event(session, life.event("Too late", "late"))


async def delete_an_artifact(life: Life) -> Any:
    await life.artifacts.delete_artifact(filename="note.txt", session_id="s", **life.owner)


async def forget_a_fact(life: Life) -> Any:
    facts = await listings.fetch_facts(
        life.memory.connection.user(life.scope), now=datetime(2027, 1, 1, tzinfo=UTC), past=True, limit=99
    )
    [steak] = [fact.id for fact in facts if fact.text == STEAK]
    return replace(await life.memory.forget([steak], **life.owner), at=None)


async def forget_a_turn(life: Life) -> Any:
    events = [life.event("keeps bees", "e0")]
    [turn], _ = memory_codec.split_rewound(events, zone=UTC)
    receipt = await life.memory.forget([turn.make_memory_id("m0")], **life.owner)
    report = await life.service.remember(Session(id="m0", events=events, **life.owner))
    assert (receipt.events, report.turns) == (1, 0)


async def delete_a_session(life: Life) -> Any:
    await life.sessions.delete_session(session_id="s", **life.owner)
    await life.sessions.create_session(session_id="s", state={"word": life.word}, **life.owner)


async def delete_its_memory(life: Life) -> Any:
    await life.sessions.delete_session(session_id="s", forget_memory=True, **life.owner)


async def derive_all_anew(life: Life) -> Any:
    assert not (await Rewriter(life.memory.connection.user(life.scope)).restore_derivation()).delta.count


async def prune_what_is_old(life: Life) -> Any:
    return await life.memory.prune(**life.owner, older_than="1d", only=["revisions"])


async def forget_oneself(life: Life) -> Any:
    receipt = await life.memory.user(**life.owner).forget_user(sessions=True, artifacts=True)
    assert set(receipt.stays) == {"tombstones"}
    return replace(receipt, at=None)


Step = Callable[[Life], Awaitable[Any]]
STEPS: list[Step] = [
    talk,
    say_ones_own_word,
    read_the_session,
    change_ones_mind,
    take_two_for_one,
    add_metadata,
    say_a_sentence,
    edit_it,
    fail,
    go_on,
    lease,
    release,
    leave_a_request_behind,
    lose_the_embedder,
    embed_later,
    go_on_talking,
    state_facts,
    save_artifacts,
    save_artifacts,
    drop_a_key,
    part_the_two,
    ask_to_forget,
    close_the_session,
    delete_an_artifact,
    forget_a_fact,
    forget_a_turn,
    delete_a_session,
    delete_its_memory,
    derive_all_anew,
    prune_what_is_old,
    forget_oneself,
]


@pytest.fixture
async def lives(neo4j_server: Any, app_name: str) -> AsyncIterator[list[Life]]:
    settings = neo4j_server.settings(label_prefix=PREFIX, model_retries=0)
    async with AsyncExitStack() as stack:
        driver = await stack.enter_async_context(
            AsyncGraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth, notifications_min_severity="OFF")
        )
        made = [Life(settings, app_name, word, driver) for word in ("amaranth", "buttercup")]
        for life in made:
            stack.push_async_callback(life.close)
        yield made


async def live(step: Step, life: Life, other: Life) -> list[str]:
    """What a step and all that can be read after it returned, without the word of the one who lives it."""
    outcome = await step(life)
    life.seen, life.kept = await life.read_all(), await life.snapshot()
    assert (await other.read_all(), await other.snapshot()) == (other.seen, other.kept)
    text = repr((outcome, life.seen, life.embedder.heard))
    assert other.word not in text
    return text.replace(life.word, "WORD").split(", ")


async def count_labels(life: Life) -> Counter[str]:
    return Counter(label for node in await life.snapshot() for label in node["labels"])


async def test_two_users_with_the_same_ids_never_touch_each_other(lives: list[Life]) -> None:
    for life in lives:
        life.seen, life.kept = await life.read_all(), await life.snapshot()
    for step in STEPS:
        lives.reverse()  # so that either is the first whom a statement without its scope meets
        first, second = lives
        assert await live(step, first, second) == await live(step, second, first), step.__name__
    assert await count_labels(first) == await count_labels(second)


async def test_a_page_begins_at_no_place_of_another_user(lives: list[Life]) -> None:
    ada, bob = lives
    await state_facts(ada)
    await take_two_for_one(ada)
    connection, now = ada.memory.connection, datetime(2027, 1, 1, tzinfo=UTC)
    [fact, *_] = await listings.fetch_facts(connection.user(ada.scope), now=now, limit=1)
    [entity, *_] = await listings.fetch_entities(connection.user(ada.scope), now=now, limit=1)
    with pytest.raises(errors.NotFound):
        await listings.fetch_facts(connection.user(bob.scope), now=now, limit=1, after=fact.id)
    with pytest.raises(errors.NotFound):
        await listings.fetch_entities(connection.user(bob.scope), now=now, limit=1, after=entity.key)


async def test_what_one_has_forgotten_another_may_say(lives: list[Life]) -> None:
    ada, bob = lives
    turn, again = ada.event("I paint", "e0"), ada.event("I paint, still", "e0")
    for life in lives:
        await life.remember_events(reply(make_fact("I paint")), session_id="p", events=[turn])
    [fact] = (await ada.read_all())["facts"]
    await ada.memory.forget([fact["id"]], **ada.owner)
    await bob.memory.forget(["fact:another"], **bob.owner)
    for life in lives:
        await life.remember_events(reply(make_fact("I paint")), session_id="p", events=[again])
    assert [len((await life.read_all())["facts"]) for life in lives] == [0, 1]
