"""Forgetting on a real graph: it then holds what it would hold if the words had never been said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from benchmarks.quality import replies
from benchmarks.quality.histories import History, make_histories
from benchmarks.quality.reader import make_reader
from benchmarks.quality.truth import Portion, make_portions
from google.adk.events.event import Event
from google.genai import types

from adk_graph_memory import GraphMemory, Neo4jArtifactService, Neo4jSessionService, errors
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.cli.demo.recorded_replies import RecordedLlm
from adk_graph_memory.consolidation.fact_rules import compute_statement_memory_id
from adk_graph_memory.consolidation.restriction import collect_label_words, collect_words, find_lost_words
from adk_graph_memory.extraction.vocabulary import OFFERED_LABELS
from adk_graph_memory.graph import erasing, snapshots
from adk_graph_memory.graph.connection import Transaction
from adk_graph_memory.memory.rewriting import Rewriter
from adk_graph_memory.records.memory import StoredMemory
from adk_graph_memory.records.results import Receipt
from adk_graph_memory.records.scopes import Scope, SharedMemory
from adk_graph_memory.records.turns import Statement, Turn
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
USER = "ada"
HISTORIES = make_histories()
SOME = [
    pytest.param(history, id=history.name, marks=() if n % 12 == 0 else pytest.mark.full)
    for n, history in enumerate(HISTORIES)
]
CONVERSATIONS = [pytest.param(name, marks=() if name == "clinic" else pytest.mark.full) for name in replies.NAMES]

FULL_NAME = "Bob Lund, with whom I keep bees, has diabetes"
MOVE = {"fact": 0, "op": "SUPERSEDE", "targets": [1], "reason": "moved"}

MakeMemory = Callable[..., GraphMemory]


@pytest.fixture
async def make_memory(neo4j_server: Any) -> Any:
    """Makes memories on the shared graph, and closes them."""
    memories: list[GraphMemory] = []

    def make(*answers: str, **options: Any) -> GraphMemory:
        settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0)
        options.setdefault("model", ScriptedLlm.from_replies(*answers) if answers else "rules")
        memories.append(GraphMemory(settings=settings, embedder=HashEmbedder(), **options))
        return memories[-1]

    yield make
    for memory in memories:
        await memory.close()


def say(*texts: str, start: int = 0) -> list[Turn]:
    return [Turn(f"t{start + n}", "user", text, NOON + timedelta(minutes=start + n)) for n, text in enumerate(texts)]


def make_reply(*facts: dict[str, Any], entities: list[dict[str, Any]] | None = None) -> str:
    user = {"ref": 1, "name": "user", "type": "person"}
    return json.dumps({"entities": [user, *(entities or [])], "facts": facts})


def fact(text: str, quote: str, turn: int = 0, **fields: Any) -> dict[str, Any]:
    return {"subject": 1, "predicate": "keeps", "object": None, "text": text, "quote": quote, "turns": [turn], **fields}


async def fetch_stored(memory: GraphMemory, app_name: str) -> StoredMemory:
    """What the graph holds, but for the places of turns in their sessions, which nobody renumbers.

    The sources of a fact have no order in the graph.
    """
    connection = memory.connection
    await connection.prepare()
    stored = (await snapshots.fetch_snapshot(connection.user(Scope(app_name, USER)))).stored
    return replace(
        stored,
        facts={
            id: replace(known, sources=tuple(sorted((replace(s, seq=0) for s in known.sources), key=lambda s: s.key)))
            for id, known in stored.facts.items()
        },
    )


def list_texts(stored: StoredMemory) -> list[str]:
    return sorted(known.proposition.text for known in stored.facts.values())


async def remember(memory: GraphMemory, portions: list[Portion], app_name: str) -> None:
    for portion in portions:
        if portion.turns:
            await memory.remember(portion.turns, app_name=app_name, user_id=USER, session_id=portion.session)


WRITTEN = """
MATCH (n {scope: $scope}) WITH n, COLLECT { MATCH (n)-[r]->() RETURN properties(r) } AS edges
UNWIND [properties(n)] + edges AS properties
UNWIND keys(properties) AS key
RETURN labels(n)[0] + '.' + key AS place, properties[key] AS value
"""


async def find_words(memory: GraphMemory, app_name: str, words: frozenset[str]) -> set[str]:
    """The properties of a user's nodes and relationships that tell one of the words."""
    connection = memory.connection
    await connection.prepare()
    rows = await connection.run_cypher(WRITTEN, {"scope": Scope(app_name, USER).key})
    texts = [(place, text.replace("_", " ")) for place, value in rows for text in list_strings(value)]
    told = frozenset(word for word in words if not word.isdigit())
    return {place.removeprefix("TestHash") for place, text in texts if told & collect_words([text])}


def list_strings(value: Any) -> Iterator[str]:
    """All text in a property, in lists and in JSON; keys of JSON are nobody's words."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        value = json.loads(value)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from list_strings(item)
    elif isinstance(value, str):
        yield value


async def test_no_label_of_what_stays_tells_a_forgotten_word(make_memory: MakeMemory, app_name: str) -> None:
    """Whatever a model wrote into its reply: who speaks, who wrote, the kind of a thing, a predicate, a reason."""
    words = say("Doctor Zebrafish is my neighbour", "Mia keeps bees", "She wrote: I like honey", "I paint ships")
    reply = make_reply(
        fact("Mia keeps bees", "Mia keeps bees", 1, speaker="Doctor Zebrafish", topic="zebrafish"),
        fact("The user paints ships", "I paint ships", 3, predicate="paints_for_zebrafish", object=2),
        fact("Mia likes honey", "I like honey", 2, subject=2, predicate="likes"),
        entities=[{"ref": 2, "name": "Mia", "type": "zebrafish keeper", "about": "of Zebrafish"}],
    )
    remarks = {"turns": [{"turn": 2, "kind": "quoted", "origin": "Doctor Zebrafish"}]}
    memory = make_memory(json.dumps(json.loads(reply) | remarks))
    await memory.remember(words, app_name=app_name, user_id=USER, session_id="s")
    lost = frozenset({"zebrafish"})
    assert {
        "Fact.author",
        "Event.writer",
        "Fact.predicate",
        "Fact.topic",
        "Entity.type",
        "Ingest.reading",
    } <= await find_words(memory, app_name, lost)
    await memory.forget([words[0].make_memory_id("s")], app_name=app_name, user_id=USER)
    assert await find_words(memory, app_name, lost) == set()
    assert list_texts(await fetch_stored(memory, app_name)) == [
        "Mia keeps bees",
        "Mia likes honey",
        "The user paints ships",
    ]


@pytest.mark.parametrize("gone", ["at doctor krum on dienstag", "Dienstag with @Krum", "Wife/Krum comes Dienstag"])
async def test_a_label_with_a_lost_word_goes_without_its_fact(
    make_memory: MakeMemory, app_name: str, gone: str
) -> None:
    """Whether a capital or a mark stands before the word; a label that other readings chose, or that the prompt
    offers, is the model's own word."""
    owner = {"app_name": app_name, "user_id": USER}
    earlier = make_reply(fact("Mia sails on Sundays", "Mia sails", predicate="sails_with", topic="dienstag"))
    reply = make_reply(
        fact("The user paints ships", "I paint ships", 1, predicate="paints_with_krum", topic="dienstag"),
        fact("The user likes tea", "I like tea", 2, predicate="likes", topic="krum"),
    )
    memory = make_memory(earlier, reply)
    await memory.remember(say("Mia sails"), session_id="s", **owner)
    words = say(gone, "I paint ships", "I like tea", start=5)
    await memory.remember(words, session_id="t", **owner)
    await memory.forget([words[0].make_memory_id("t")], **owner)
    facts = (await fetch_stored(memory, app_name)).facts.values()
    assert sorted((one.proposition.text, one.proposition.predicate, one.proposition.topic) for one in facts) == [
        ("Mia sails on Sundays", "sails_with", "dienstag"),
        ("The user likes tea", "likes", ""),
        ("The user paints ships", "states", "dienstag"),
    ]


async def test_reasons_and_evidence_are_derived_too(make_memory: MakeMemory, app_name: str) -> None:
    """What differs in them alone is found, and mended."""
    move = json.dumps({"ops": [MOVE | {"quotes": ["I live in Vigo", "I live in Porto"]}]})
    replies = [
        make_reply(fact(f"The user lives in {place}", f"I live in {place}", predicate="lives_in"))
        for place in ("Porto", "Vigo")
    ]
    memory = make_memory(replies[0], replies[1], move)
    owner = {"app_name": app_name, "user_id": USER}
    for number, place in enumerate(("Porto", "Vigo")):
        await memory.remember(say(f"I live in {place}", start=number), session_id=f"s{number}", **owner)
    scope = {"scope": Scope(app_name, USER).key}
    changes = (
        "MATCH (r:TestHashRevision {scope: $scope}) SET r.reason = 'of Zebrafish'",
        "MATCH (:TestHashRevision {scope: $scope})-[b:BECAUSE_OF]->() DELETE b",
    )
    for change in changes:
        assert await memory.connection.run_cypher(f"{change} RETURN 1", scope)
        [found] = [checkup async for checkup in memory.check_memories(**owner)]
        assert found.differences
        await Rewriter(memory.connection.user(Scope(**owner)), memory.engine.vectors).restore_derivation()
        assert [checkup.differences async for checkup in memory.check_memories(**owner)] == [0]
        assert await find_words(memory, app_name, frozenset({"zebrafish"})) == set()


@pytest.mark.slow
@pytest.mark.parametrize("history", SOME)
async def test_the_graph_without_a_turn_equals_one_that_never_heard_it(
    neo4j_server: Any, app_name: str, history: History
) -> None:
    predicates = {"functional_predicates": history.functional_predicates}
    settings = neo4j_server.settings(label_prefix="TestHash", **predicates)
    portions = make_portions(history)["told"]
    async with GraphMemory(settings=settings, model=make_reader(history), embedder=HashEmbedder()) as memory:
        for number, (gone, rest) in enumerate(leave_each_out(portions)):
            forgetful, ignorant = f"{app_name}-{number}-forgets", f"{app_name}-{number}-never-heard"
            await remember(memory, portions, forgetful)
            await memory.forget([gone], app_name=forgetful, user_id=USER)
            await remember(memory, rest, ignorant)
            connection = memory.connection
            derived = await Rewriter(connection.user(Scope(forgetful, USER))).restore_derivation()
            assert not derived.delta.count
            stored = await fetch_stored(memory, forgetful)
            labels = (known.proposition.predicate for known in stored.facts.values())  # other readings chose them too
            lost = list_lost_words(gone, portions) - collect_label_words(labels)
            assert await find_words(memory, forgetful, lost) == set()
            if not has_lost_decision(history):
                assert await fetch_stored(memory, forgetful) == await fetch_stored(memory, ignorant), gone


OFFERED_WORDS = collect_label_words(OFFERED_LABELS)
"""Words that a model may choose for a label without having heard them."""


def list_lost_words(gone: str, portions: list[Portion]) -> frozenset[str]:
    """The words that only this turn says."""
    texts = {turn.make_memory_id(portion.session): turn.text for portion in portions for turn in portion.turns}
    told = texts.pop(gone)
    return find_lost_words([told], [*texts.values(), "user"]) - OFFERED_WORDS


def has_lost_decision(history: History) -> bool:
    """Whether a model would decide something else, if it had not heard a turn: those are compared on paper."""
    return history.name.startswith(("judged", "outcome", "planned", "repeated", "rests"))


def leave_each_out(portions: list[Portion]) -> Iterator[tuple[str, list[Portion]]]:
    for portion in portions:
        for turn in portion.turns:
            rest = [
                replace(
                    other, turns=tuple(t for t in other.turns if (other.session, t.id) != (portion.session, turn.id))
                )
                for other in portions
            ]
            yield turn.make_memory_id(portion.session), rest


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_what_a_model_made_of_a_conversation_can_be_derived_again(
    make_memory: MakeMemory, app_name: str, name: str
) -> None:
    memory = make_memory(model=RecordedLlm.from_recording(replies.load_recording(name)))
    talk = replies.load_conversation(name)
    graph, owner = memory.connection.user(Scope(app_name, USER)), {"app_name": app_name, "user_id": USER}
    *kept, last = talk.sessions
    said = [turn.text for session in kept for turn in session.turns]
    lost = find_lost_words([turn.text for turn in last.turns], said) - OFFERED_WORDS
    for session in kept:
        turns = memory_codec.make_turns(session.make_events(), zone=talk.zone)
        await memory.remember(turns, session_id=session.id, **owner)
    found_before = await find_words(memory, app_name, lost)  # a model words labels as it likes, and ids have words too
    turns = memory_codec.make_turns(last.make_events(), zone=talk.zone)
    await memory.remember(turns, session_id=last.id, **owner)
    before = await fetch_stored(memory, app_name)
    assert len(before.facts) > 30
    assert not (await Rewriter(graph).restore_derivation()).delta.count
    receipt = await memory.user(**owner).forget_session(last.id)
    assert receipt.events and receipt.facts
    assert not (await Rewriter(graph).restore_derivation()).delta.count
    assert lost and await find_words(memory, app_name, lost) <= found_before
    after = await fetch_stored(memory, app_name)
    assert len(before.facts) - len(after.facts) == receipt.facts
    assert not any(source.session_id == last.id for known in after.facts.values() for source in known.sources)


@pytest.mark.parametrize("statement", ["user_words", "readings", "derived_entities", "derived_facts"])
async def test_who_forgets_while_another_looks_leaves_no_half_of_a_memory(
    make_memory: MakeMemory, app_name: str, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neo4j reads what is committed: a turn could be in one part of what was read, and its fact in none."""
    memory = make_memory(make_reply(fact("The user keeps bees", "I keep bees")))
    scope, owner = Scope(app_name, USER), {"app_name": app_name, "user_id": USER}
    await memory.remember(say("I keep bees"), session_id="s", **owner)
    await memory.connection.prepare()
    connection, run = memory.connection, Transaction.run_statement

    async def run_and_be_overtaken(transaction: Transaction, name: str, *args: Any, **more: Any) -> Any:
        rows = await run(transaction, name, *args, **more)
        if name == statement:
            monkeypatch.undo()
            await memory.user(**owner).forget_event("t0", session_id="s")
        return rows

    monkeypatch.setattr(Transaction, "run_statement", run_and_be_overtaken)
    snapshot = await snapshots.fetch_snapshot(connection.user(scope))
    assert snapshot == await snapshots.fetch_snapshot(connection.user(scope))
    assert not snapshot.turns and not snapshot.stored.facts and not snapshot.readings


async def test_a_forgotten_diagnosis_leaves_wording_alias_and_context(make_memory: MakeMemory, app_name: str) -> None:
    bob = {"ref": 2, "name": "Bob", "type": "person"}
    more = {**bob, "aliases": ["Bob Lund"], "about": "has diabetes"}
    memory = make_memory(
        make_reply(fact("The user keeps bees with Bob", "I keep bees with Bob", object=2), entities=[bob]),
        make_reply(
            fact(
                "The user keeps bees with Bob Lund, who has diabetes",
                "Bob Lund, with whom I keep bees, has diabetes",
                object=2,
            ),
            entities=[more],
        ),
        json.dumps({"ops": [{"fact": 0, "op": "REFINE", "targets": [1], "reason": "more exact: diabetes"}]}),
    )
    owner = {"app_name": app_name, "user_id": USER}
    await memory.remember(say("I keep bees with Bob"), session_id="s", **owner)
    await memory.remember(say(FULL_NAME, start=5), session_id="s", **owner)
    told = await fetch_stored(memory, app_name)
    assert [known.proposition.text for known in told.facts.values()] == [
        "The user keeps bees with Bob Lund, who has diabetes"
    ]
    await memory.user(**owner).forget_event("t5", session_id="s")
    stored = await fetch_stored(memory, app_name)
    assert list_texts(stored) == ["The user keeps bees with Bob"]
    assert {(entity.name, entity.aliases, entity.about) for entity in stored.entities.values()} == {
        ("user", (), ""),
        ("Bob", (), ""),
    }
    assert await find_traces(memory, app_name, "diabetes", "Lund") == []


async def test_a_forgotten_wrong_address_leaves_the_right_one_open(make_memory: MakeMemory, app_name: str) -> None:
    town = {"predicate": "lives_in"}
    memory = make_memory(
        make_reply(fact("The user lives in Faro", "I live in Faro", **town)),
        make_reply(fact("The user lives in Porto", "I live in Porto", **town)),
        json.dumps(
            {
                "ops": [
                    {
                        "fact": 0,
                        "op": "SUPERSEDE",
                        "targets": [1],
                        "quotes": ["I live in Porto", "I live in Faro"],
                        "reason": "moved",
                    }
                ]
            }
        ),
        make_reply(fact("The user lives in Faro", "I live in Faro", **town)),
    )
    owner = {"app_name": app_name, "user_id": USER}
    await memory.remember(say("I live in Faro"), session_id="s", **owner)
    await memory.remember(say("I live in Porto", start=5), session_id="s", **owner)
    assert sorted(known.standing.state for known in (await fetch_stored(memory, app_name)).facts.values()) == [
        "current",
        "superseded",
    ]
    await memory.user(**owner).forget_event("t5", session_id="s")
    [faro] = (await fetch_stored(memory, app_name)).facts.values()
    assert (faro.proposition.text, faro.standing.state, faro.standing.valid_to) == (
        "The user lives in Faro",
        "current",
        None,
    )
    await memory.remember(say("I live in Faro", start=9), session_id="s", **owner)
    [faro] = (await fetch_stored(memory, app_name)).facts.values()
    assert len(faro.sources) == 2


REFINED = (
    make_reply(fact("The user keeps bees", "I keep bees")),
    make_reply(fact("The user keeps seven hives of bees", "I keep seven hives of bees")),
    json.dumps({"ops": [{"fact": 0, "op": "REFINE", "targets": [1], "reason": "more exact"}]}),
)
VECTORS = "MATCH (f:@Fact {scope: $scope}) RETURN f.text, f.embedding_a, f.embedding_b, f.unembedded"


@pytest.mark.slow
@pytest.mark.parametrize("embedder", ["its own", "another"])
async def test_what_a_fact_said_before_leaves_no_vector(
    neo4j_server: Any, make_memory: MakeMemory, app_name: str, embedder: str
) -> None:
    """Another embedder's vectors do not fit: the fact waits for one, and is forgotten all the same."""
    memory, owner = make_memory(*REFINED), {"app_name": app_name, "user_id": USER}
    await memory.remember(say("I keep bees"), session_id="s", **owner)
    await memory.remember(say("I keep seven hives of bees", start=5), session_id="s", **owner)
    [[text, vector, other, _]] = await run_cypher(memory, VECTORS, app_name)
    assert text == "The user keeps seven hives of bees"
    settings = neo4j_server.settings(label_prefix="TestHash")
    chosen = HashEmbedder() if embedder == "its own" else HashEmbedder(dimensions=32)
    async with GraphMemory(settings=settings, model="rules", embedder=chosen) as forgetful:
        assert (await forgetful.user(**owner).forget_event("t5", session_id="s")).events == 1
    [[text, after, other_after, is_late]] = await run_cypher(memory, VECTORS, app_name)
    assert text == "The user keeps bees"
    assert {tuple(after or ()), tuple(other_after or ())}.isdisjoint({tuple(vector or other)})
    assert bool(is_late) == (embedder == "another")


async def test_a_fact_that_is_reworded_while_the_embedder_is_away_waits_for_its_vector(
    make_memory: MakeMemory, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: HashEmbedder, texts: list[str]) -> list[list[float]]:
        raise ConnectionError("no embedder today")

    memory, owner = make_memory(*REFINED), {"app_name": app_name, "user_id": USER}
    await memory.remember(say("I keep bees"), session_id="s", **owner)
    with monkeypatch.context() as away:
        away.setattr(HashEmbedder, "embed_documents", refuse)
        await memory.remember(say("I keep seven hives of bees", start=5), session_id="s", **owner)
    assert await run_cypher(memory, VECTORS, app_name) == [["The user keeps seven hives of bees", None, None, True]]
    [checkup] = [one async for one in memory.check_memories(**owner, mend=True)]
    assert checkup.unembedded == 0


async def test_a_forgotten_fact_names_the_turns_that_still_say_it_and_can_take_them_along(
    make_memory: MakeMemory, app_name: str
) -> None:
    memory, owner = make_memory(), {"app_name": app_name, "user_id": USER}
    text = "My dog Rex is afraid of thunder."
    for number in range(2):
        await memory.remember(say(text, start=number), session_id=f"s{number}", **owner)
    [id] = [fact.id async for fact in memory.facts(**owner)]
    await memory.user(**owner).promote(id, to=SharedMemory())
    change = await memory.user(**owner).preview_forget(id)
    assert (change.turns, sorted(change.staying_turns.values()), change.copies) == (0, [text, text], 2)
    receipt = await memory.forget(id, **owner)
    assert (receipt.facts, receipt.events, receipt.stays) == (1, 0, {"turns": 2, "copies": 2})
    assert {found.kind for found in await memory.recall("Rex", **owner)} == {"event"}

    await memory.remember(say(text, start=5), session_id="s5", **owner)
    [id] = [fact.id async for fact in memory.facts(**owner)]
    change = await memory.user(**owner).preview_forget(id, with_turns=True)
    assert (change.turns, dict(change.staying_turns)) == (1, {})
    receipt = await memory.forget(id, **owner, with_turns=True)
    assert (receipt.facts, receipt.events, receipt.stays.get("turns")) == (1, 1, None)


async def test_what_was_forgotten_is_refused_and_the_same_in_a_new_event_is_remembered(
    make_memory: MakeMemory, app_name: str
) -> None:
    memory, owner = make_memory(), {"app_name": app_name, "user_id": USER}
    await memory.remember(say("My dog Rex is afraid of thunder."), session_id="s", **owner)
    await memory.user(**owner).forget_session("s")
    await memory.remember(say("My dog Rex is afraid of thunder."), session_id="s", **owner)
    await memory.remember([replace(say("Rex, my dog, fears thunder.")[0])], session_id="s", **owner)
    assert await memory.recall("Rex", **owner) == []
    await memory.remember(say("My dog Rex is afraid of thunder.", start=7), session_id="s", **owner)
    assert await memory.recall("Rex", **owner)


async def test_no_fact_comes_back_from_a_turn_whose_fact_was_forgotten(make_memory: MakeMemory, app_name: str) -> None:
    memory, owner = make_memory(), {"app_name": app_name, "user_id": USER}
    await memory.remember(say("My dog Rex is afraid of thunder."), session_id="s", **owner)
    [stored] = [fact async for fact in memory.facts(**owner)]
    assert (await memory.forget(stored.id, **owner)).facts == 1
    await memory.remember(say("My dog Rex is much afraid of thunder."), session_id="s", **owner)
    assert [fact async for fact in memory.facts(**owner)] == []
    assert [recollection.kind for recollection in await memory.recall("Rex", **owner)] == ["event"]
    assert not (await Rewriter(memory.connection.user(Scope(app_name, USER))).restore_derivation()).delta.count


@pytest.mark.slow
async def test_a_tombstone_tells_nothing(make_memory: MakeMemory, app_name: str) -> None:
    memory, owner = make_memory(), {"app_name": app_name, "user_id": USER}
    turns = say("My dog Rex is afraid of thunder.")
    await memory.remember(turns, session_id="s", **owner)
    await memory.user(**owner).forget_session("s")
    [[key]] = await run_cypher(memory, "MATCH (n:@Tombstone {scope: $scope}) RETURN n.key AS key", app_name)
    assert turns[0].make_memory_id("s") not in key
    assert key == erasing.make_turn_tombstone(memory.connection, turns[0].make_memory_id("s"))
    assert key != compute_statement_memory_id(turns[0].id)


async def test_forget_before_leaves_what_was_said_later(make_memory: MakeMemory, app_name: str) -> None:
    memory, owner = make_memory(), {"app_name": app_name, "user_id": USER}
    await memory.remember(say("I keep bees in the garden.", "I like honey on bread."), session_id="s", **owner)
    await memory.user(**owner).add_statements([Statement("Ada owns a boat.", NOON - timedelta(days=9))])
    receipt = await memory.user(**owner).forget_before(NOON + timedelta(seconds=30))
    assert (receipt.events, len(receipt.ids)) == (1, 2)
    assert [fact.text async for fact in memory.facts(**owner)] == ["I like honey on bread."]
    with pytest.raises(errors.InvalidArgument, match="no time zone"):
        await memory.user(**owner).forget_before(datetime(2026, 1, 1))


@pytest.mark.slow
async def test_forgetting_a_user_leaves_no_trace(
    neo4j_server: Any, make_memory: MakeMemory, app_name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(erasing, "ERASED_AT_ONCE", 3)
    monkeypatch.setattr(erasing, "MAX_ERASED_NODES", 5)
    settings = neo4j_server.settings(label_prefix="TestHash", artifact_store=tmp_path.as_uri())
    memory, owner = make_memory(), {"app_name": app_name, "user_id": USER}
    async with Neo4jSessionService(settings=settings) as sessions, Neo4jArtifactService(settings=settings) as artifacts:
        session = await sessions.create_session(**owner, session_id="Zanzibar", state={"user:town": "Zanzibar"})
        for number in range(8):
            event = make_event(f"Number {number}: I met Quentin in Zanzibar on day {number}.", number)
            await sessions.append_event(session, event)
        await artifacts.save_artifact(
            **owner, session_id="Zanzibar", filename="Zanzibar.txt", artifact=types.Part(text="Zanzibar")
        )
        await memory.remember(memory_codec.make_turns(session.events), session_id="Zanzibar", **owner)
        await memory.user(**owner).enqueue(say("Quentin waits in Zanzibar", start=50), session_id="later")
        before = await erasing.count_user(memory.connection.user(Scope(app_name, USER)))
        partial = await memory.user(**owner).forget_user()
        assert (partial.events, partial.facts, partial.entities) == (
            before["turns"],
            before["facts"],
            before["entities"],
        )
        assert partial.stays["sessions"] == 1 and partial.stays["artifacts"] == 1
        assert await memory.recall("Quentin", **owner) == []
        assert len((await sessions.get_session(**owner, session_id="Zanzibar")).events) == 8
        whole = await memory.user(**owner).forget_user(sessions=True, artifacts=True)
        assert (whole.sessions, whole.artifacts, whole.events) == (1, 1, 8)
        assert set(whole.stays) == {"tombstones"}
        assert await find_traces(memory, app_name, "Zanzibar", "Quentin", app_name) == []
        assert await memory.user(**owner).forget_user(sessions=True, artifacts=True) == Receipt()
        await memory.remember(memory_codec.make_turns(session.events), session_id="Zanzibar", **owner)
        assert await memory.recall("Quentin", **owner) == []


def make_event(text: str, number: int) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", invocation_id="inv", content=content, timestamp=NOON.timestamp() + number)


async def run_cypher(memory: GraphMemory, query: str, app_name: str) -> list[Any]:
    connection = memory.connection
    await connection.prepare()
    text = query.replace("@", connection.settings.label_prefix)
    return await connection.run_cypher(text, {"scope": Scope(app_name, USER).key})


async def find_traces(memory: GraphMemory, app_name: str, *words: str) -> list[str]:
    """All properties of all of the user's nodes and edges that hold one of these words."""
    query = """
    MATCH (n {scope: $scope})
    OPTIONAL MATCH (n)-[r]->() RETURN properties(n) AS node, collect(properties(r)) AS edges
    """
    rows = await run_cypher(memory, query, app_name)
    texts = [repr((row["node"], row["edges"])) for row in rows]
    return [text for text in texts for word in words if word in text]
