"""Each invariant, broken by hand: the doctor finds it, says so in plain words, mends it, and finds nothing more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adk_graph_memory import AsOf, GraphMemory, Statement, Turn, errors
from adk_graph_memory.cli.upkeep_commands import MAX_USERS_SHOWN, CheckupTally, list_hints
from adk_graph_memory.graph.statements import name_index
from adk_graph_memory.memory import rewriting
from adk_graph_memory.records.memory import MemorySnapshot
from adk_graph_memory.records.results import Checkup
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
TEXTS = ("I live in Faro.", "I live in Porto.")
TOLD = "Ada is allergic to nuts."
DIMENSIONS = 64
FINISHED = "MATCH (i:@Ingest {scope: $scope, state: 'done'}) WITH i ORDER BY i.id LIMIT 1 "
PORTO = "MATCH (f:@Fact {scope: $scope}) WHERE f.text CONTAINS 'Porto' "
FARO = "MATCH (f:@Fact {scope: $scope}) WHERE f.text CONTAINS 'Faro' "


def make_reply(text: str) -> str:
    fact = {"subject": 1, "predicate": "lives_in", "object": 2, "text": text, "quote": text, "turns": [0]}
    place = {"ref": 2, "name": text.split()[-1].rstrip("."), "type": "place"}
    return json.dumps({"entities": [{"ref": 1, "name": "user", "type": "person"}, place], "facts": [fact]})


@pytest.fixture
async def memory(neo4j_server: Any, app_name: str) -> AsyncIterator[GraphMemory]:
    """Of Ada, who moved, and who told something directly; and of Bob, who lives in Faro."""
    settings = neo4j_server.settings(label_prefix="TestHash", functional_predicates=("lives_in",))
    model = ScriptedLlm.from_replies(*map(make_reply, (*TEXTS, TEXTS[0])))
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        for n, (user, text) in enumerate([("ada", TEXTS[0]), ("ada", TEXTS[1]), ("bob", TEXTS[0])]):
            turn = Turn(f"t{n}", "user", text, NOON + timedelta(days=n))
            await memory.remember([turn], app_name=app_name, user_id=user, session_id=f"s{n}")
        told = Statement(TOLD, NOON, "s")
        await memory.user(app_name, "ada").add_statements([told])
        yield memory


async def run_statement(memory: GraphMemory, app_name: str, statement: str) -> list[Any]:
    """Run a statement by hand, as somebody with a browser does."""
    driver, prefix = await memory.connection.get_driver(), memory.connection.settings.label_prefix
    keys = {"scope": Scope(app_name, "ada").key, "other": Scope(app_name, "bob").key}
    records, _, _ = await driver.execute_query(statement.replace("@", prefix), **keys, size=DIMENSIONS)
    return [record.values() for record in records]


async def check(memory: GraphMemory, app_name: str, **options: Any) -> dict[str, Checkup]:
    return {one.user_id: one async for one in memory.check_memories(app_name=app_name, **options)}


def describe(checkup: Checkup) -> dict[str, tuple[int, bool]]:
    return {finding.invariant: (finding.count, finding.is_mended) for finding in checkup.findings}


BROKEN = [
    pytest.param(
        PORTO + "MATCH (f)-[s:SUPPORTED_BY]->() DELETE s "
        "CREATE (:@Ingest {scope: $scope, id: 'x', state: 'claimed', lease_until: 1.0, lease: 'dead'})",
        {"unsupported_facts": 1, "wrong_flags": 1, "overdue_leases": 1},
        id="no-support-and-a-lease-is-over",
    ),
    pytest.param(PORTO + "SET f.support = 7", {"wrong_flags": 1}, id="support-miscounted"),
    pytest.param(FARO + "SET f.open = true", {"wrong_flags": 1}, id="open-though-over"),
    pytest.param(FARO + "SET f.valid_to = null", {"malformed_intervals": 1}, id="over-at-no-time"),
    pytest.param(PORTO + "SET f.state = 'gone'", {"malformed_intervals": 1, "wrong_flags": 1}, id="unknown-state"),
    pytest.param(
        PORTO + "SET f.valid_from = datetime('2027-01-01'), f.valid_to = datetime('2026-01-01')",
        {"malformed_intervals": 1},
        id="ends-before-it-begins",
    ),
    pytest.param(
        "MATCH (f:@Fact {scope: $scope, direct: true}) SET f.state = null", {"malformed_intervals": 1}, id="told"
    ),
    pytest.param(
        PORTO
        + "MATCH (e:@Event {scope: $other}) CREATE (f)-[:SUPPORTED_BY {key: 'k', quote: 'q', start: 0, end: 1}]->(e)",
        {"edges_across_users": 1, "wrong_flags": 1},
        id="fact-event-across",
    ),
    pytest.param(
        PORTO + "MATCH (n:@Entity {scope: $other, name: 'Faro'}) CREATE (f)-[:OBJECT]->(n)",
        {"edges_across_users": 1},
        id="fact-entity-across",
    ),
    pytest.param(
        "MATCH (a:@Entity {scope: $scope, name: 'Faro'}), (b:@Entity {scope: $other, name: 'Faro'}) "
        "CREATE (a)-[:MERGED_INTO]->(b)",
        {"edges_across_users": 1},
        id="merged-across",
    ),
    pytest.param(
        "MATCH (e:@Event {scope: $scope, id: 't0'}), (n:@Entity {scope: $other, name: 'Faro'}) "
        "CREATE (e)-[:MENTIONS]->(n)",
        {"edges_across_users": 1},
        id="mentions-across",
    ),
    pytest.param(
        "MATCH (a:@Event {scope: $scope, id: 't1'}), (b:@Event {scope: $other}) CREATE (a)-[:NEXT]->(b)",
        {"edges_across_users": 1},
        id="next-across",
    ),
    pytest.param(
        FINISHED + "MATCH (e:@Event {scope: $other}) CREATE (i)-[:READS]->(e)",
        {"edges_across_users": 1},
        id="reads-across",
    ),
    pytest.param(
        PORTO + "CREATE (e:@Event {scope: $scope, session_uid: 'u', id: 'x', text: 'lost'}) "
        "CREATE (f)-[:SUPPORTED_BY {key: 'k', quote: 'q', start: 0, end: 1}]->(e)",
        {"unheard_quotes": 1, "wrong_flags": 1, "underivable": 1},
        id="quote-of-what-is-not-held",
    ),
    pytest.param(
        PORTO + "CALL db.create.setNodeVectorProperty(f, 'embedding_a', [1.0, 2.0]) RETURN 1",
        {"foreign_vectors": 1},
        id="another-length",
    ),
    pytest.param(
        "MATCH (n:@Entity {scope: $scope, name: 'Porto'}) SET n.embedding_b = n.embedding_a",
        {"foreign_vectors": 1},
        id="slot-of-nobody",
    ),
    pytest.param(
        "MATCH (e:@Event {scope: $scope, id: 't1'}) SET e.origin = 'nobody'",
        {"malformed_memories": 1, "underivable": 1},
        id="nobody's-word",
    ),
    pytest.param(
        "MATCH (e:@Event {scope: $scope, id: 't1'}) SET e.timestamp = 1e300, e.offset = 100000",
        {"malformed_memories": 1, "underivable": 1},
        id="said-at-no-time",
    ),
    pytest.param(
        "MATCH (:@Fact {scope: $scope})-[s:SUPPORTED_BY]->() SET s.quote = 'q', s.start = -5, s.end = -1",
        {},
        id="quoted-from-nowhere",
    ),
    pytest.param(
        "CREATE (i:@Ingest {scope: $scope, id: 'x', state: 'claimed', lease_until: 1.0, lease: 'dead'})",
        {"overdue_leases": 1},
        id="lease-is-over",
    ),
    pytest.param(
        "CREATE (i:@Ingest {scope: $scope, id: 'x', state: 'claimed', lease_until: 1e12, lease: 'long'})",
        {"overdue_leases": 1},
        id="lease-has-no-end",
    ),
    pytest.param(FINISHED + "SET i.reading = '{'", {"unreadable_readings": 1}, id="unreadable-reading"),
]


@pytest.mark.parametrize(("statement", "broken"), BROKEN)
async def test_what_is_broken_is_found_and_mended(
    memory: GraphMemory, app_name: str, statement: str, broken: dict[str, int]
) -> None:
    healthy = await check(memory, app_name)
    assert not any(one.is_ill or one.findings or one.unembedded for one in healthy.values())
    await run_statement(memory, app_name, statement)
    ill = (await check(memory, app_name))["ada"]
    assert ill.is_ill and describe(ill) == {kind: (count, False) for kind, count in broken.items()}
    assert all(finding.text and finding.way_out for finding in ill.findings)
    # What leads from one user to another is mended with whoever comes first, and what it miscounts with it.
    mended = await check(memory, app_name, user_id="ada", mend=True)
    assert describe(mended["ada"]) == {kind: (count, True) for kind, count in broken.items()}
    after = await check(memory, app_name)
    assert {name: replace(one, waiting=0) for name, one in after.items()} == healthy


async def test_a_word_of_the_owner_needs_no_quote(memory: GraphMemory, app_name: str) -> None:
    await run_statement(
        memory, app_name, PORTO + "MATCH (f)-[s:SUPPORTED_BY]->() SET f.origin = 'owner', f.support = 0 DELETE s"
    )
    assert describe((await check(memory, app_name))["ada"]) == {}


@pytest.mark.slow
async def test_dates_of_a_statement_are_for_its_owner_to_set_right(memory: GraphMemory, app_name: str) -> None:
    dates = "SET f.valid_from = datetime('2027-01-01'), f.valid_to = datetime('2026-01-01')"
    await run_statement(memory, app_name, f"MATCH (f:@Fact {{scope: $scope, direct: true}}) {dates}")
    left = (await check(memory, app_name, mend=True))["ada"]
    assert left.is_ill and describe(left) == {"malformed_intervals": (1, False)}
    assert "forget it and add it again" in left.findings[0].way_out
    [statement] = [
        fact async for fact in memory.facts(app_name=app_name, user_id="ada", about=None) if not fact.sources
    ]
    await memory.forget(statement.id, app_name=app_name, user_id="ada")
    assert not (await check(memory, app_name))["ada"].is_ill


DAMAGE = "MATCH (i:@Ingest {scope: $scope}) SET i.reading = '{\"id\": 1}'"


async def list_facts(memory: GraphMemory, owner: dict[str, str], **options: Any) -> dict[str, str]:
    return {fact.text: fact.state async for fact in memory.facts(**owner, past=True, **options)}


@pytest.mark.slow
async def test_facts_stand_for_readings_that_cannot_be_read_once_and_for_all(
    memory: GraphMemory, app_name: str
) -> None:
    owner = {"app_name": app_name, "user_id": "ada"}
    before = await list_facts(memory, owner)
    ingests = "MATCH (i:@Ingest {scope: $scope}) RETURN i.id, i.done_at, i.reading, i.written ORDER BY i.written"
    [[_, first_at, *_], [second_id, *_]] = await run_statement(memory, app_name, ingests)
    then = AsOf(valid=NOON + timedelta(days=9), recorded=first_at.to_native())
    known_then = await list_facts(memory, owner, as_of=then)
    assert known_then == {TEXTS[0]: "current"}
    await run_statement(memory, app_name, DAMAGE)
    found = await check(memory, app_name)
    assert describe(found["ada"]) == {"unreadable_readings": (2, False)} and not found["bob"].is_ill
    assert len(found["ada"].findings[0].details) == 2
    mended = (await check(memory, app_name, mend=True))["ada"]
    assert describe(mended) == {"unreadable_readings": (2, True)} and not mended.is_ill

    readings = await run_statement(memory, app_name, ingests)
    again = (await check(memory, app_name, mend=True))["ada"]
    assert (again.differences, again.findings, again.is_mended) == (0, (), False)
    assert await run_statement(memory, app_name, ingests) == readings
    assert await list_facts(memory, owner) == before
    assert await list_facts(memory, owner, as_of=then) == known_then

    await memory.user(**owner).undo(second_id)
    assert await list_facts(memory, owner) == {TEXTS[0]: "current", TOLD: "current"}
    await memory.user(**owner).forget_session("s0")
    assert await list_facts(memory, owner) == {TOLD: "current"}


async def test_what_the_owner_ruled_on_facts_outlives_its_readings(memory: GraphMemory, app_name: str) -> None:
    owner = {"app_name": app_name, "user_id": "ada"}
    ids = {fact.text: fact.id async for fact in memory.facts(**owner, past=True)}
    await memory.user(**owner).retract(ids[TEXTS[1]])
    await memory.user(**owner).correct(ids[TEXTS[0]], text="I live in Lagos.")
    [corrected] = [fact async for fact in memory.facts(**owner) if "Lagos" in fact.text]
    await memory.user(**owner).pin(corrected.id, reason="I know where I live.")
    before = await list_facts(memory, owner)
    assert before == {TEXTS[0]: "retracted", TEXTS[1]: "retracted", "I live in Lagos.": "current", TOLD: "current"}
    await run_statement(memory, app_name, DAMAGE)
    assert describe((await check(memory, app_name, mend=True))["ada"]) == {"unreadable_readings": (5, True)}
    assert await list_facts(memory, owner) == before
    assert [fact.text async for fact in memory.facts(**owner) if fact.is_pinned] == ["I live in Lagos."]
    assert not (await check(memory, app_name))["ada"].is_ill


@pytest.mark.slow
async def test_turns_that_were_read_again_are_not_salvaged_twice(memory: GraphMemory, app_name: str) -> None:
    owner = {"app_name": app_name, "user_id": "ada"}
    reply = make_reply(TEXTS[0]).replace(f'"text": "{TEXTS[0]}"', '"text": "The home of the user is Faro."')
    model = ScriptedLlm.from_replies(reply)
    async with GraphMemory(settings=memory.connection.settings, model=model, embedder=HashEmbedder()) as other:
        [session] = [one async for one in other.outdated_sessions(**owner, force=True) if one.session_id == "s0"]
        await other.reextract(session, force=True)
    before = await list_facts(memory, owner)
    assert "The home of the user is Faro." in before and TEXTS[0] not in before
    await run_statement(memory, app_name, DAMAGE)
    assert describe((await check(memory, app_name, mend=True))["ada"]) == {"unreadable_readings": (3, True)}
    assert await list_facts(memory, owner) == before


@pytest.mark.slow
async def test_until_a_reading_is_mended_nothing_is_derived_and_nothing_lost(
    memory: GraphMemory, app_name: str, tmp_path: Path
) -> None:
    owner = {"app_name": app_name, "user_id": "ada"}
    [porto] = [fact.id async for fact in memory.facts(**owner, about="Porto")]
    before = await list_facts(memory, owner)
    [[ingest], *_] = await run_statement(memory, app_name, "MATCH (i:@Ingest {scope: $scope}) RETURN i.id")
    await run_statement(memory, app_name, DAMAGE)
    everything = "MATCH (n {scope: $scope}) RETURN properties(n) AS node ORDER BY elementId(n)"
    damaged = await run_statement(memory, app_name, everything)
    now = AsOf(recorded=datetime.now(UTC))
    for refused in (
        memory.forget(porto, **owner),
        memory.user(**owner).forget_session("s0"),
        memory.user(**owner).preview_forget(porto),
        memory.user(**owner).undo(ingest),
        memory.user(**owner).history(porto),
        memory.user(**owner).entity("Porto"),
        memory.user(**owner).retract(porto),
        memory.user(**owner).correct(porto, text="I live in Lagos."),
        memory.recall("Where do I live?", **owner, as_of=now),
        memory.export(tmp_path / "then.jsonl", **owner, as_of=now),
        list_facts(memory, owner, as_of=now),
    ):
        with pytest.raises(errors.GraphMemoryError, match=r"cannot be read any more.*doctor --mend"):
            await refused
    assert await run_statement(memory, app_name, everything) == damaged

    assert (await memory.recall("Where do I live?", **owner))[0].text in TEXTS
    await memory.export(tmp_path / "now.jsonl", **owner)
    async with GraphMemory(settings=memory.connection.settings, model="rules", embedder=HashEmbedder()) as rules:
        await rules.remember([Turn("t9", "user", "I keep bees.", NOON)], session_id="s9", **owner)
    assert not (await check(memory, app_name, mend=True))["ada"].is_ill
    assert await list_facts(memory, owner) == before | {"I keep bees.": "current"}
    assert (await memory.forget(porto, **owner)).facts == 1


async def test_a_memory_that_cannot_be_derived_is_reported_and_holds_up_no_other(
    memory: GraphMemory, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    derive = rewriting.derive_memory

    def fail(snapshot: MemorySnapshot, *erasure: Any) -> Any:
        if len(snapshot.turns) == 2:
            raise KeyError("a bug")
        return derive(snapshot, *erasure)

    monkeypatch.setattr(rewriting, "derive_memory", fail)
    found = await check(memory, app_name, mend=True)
    assert describe(found["ada"]) == {"underivable": (1, False)} and found["ada"].facts == 2
    assert describe(found["bob"]) == {} and found["bob"].facts == 1


@pytest.mark.slow
@pytest.mark.parametrize("has_embedder", [True, False])
async def test_what_lacks_its_vector_gets_it_now_or_later(
    neo4j_server: Any, memory: GraphMemory, app_name: str, has_embedder: bool
) -> None:
    await run_statement(memory, app_name, PORTO + "SET f.embedding_a = null, f.tokens_a = null")
    await run_statement(memory, app_name, "MATCH (n:@Entity {scope: $scope, name: 'Porto'}) SET n.embedding_a = null")
    found = (await check(memory, app_name))["ada"]
    assert found.unembedded == 2 and not found.is_ill
    settings = memory.connection.settings
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder() if has_embedder else False) as one:
        mended = (await check(one, app_name, mend=True))["ada"]
    assert mended.unembedded == (0 if has_embedder else 2)
    vectors = await run_statement(memory, app_name, PORTO + "RETURN size(f.embedding_a), f.unembedded")
    assert vectors == [[DIMENSIONS, None] if has_embedder else [None, True]]


@pytest.mark.slow
@pytest.mark.schema
@pytest.mark.xdist_group("doctor")  # these change one graph's indexes
async def test_indexes_are_those_of_our_labels_and_there(neo4j_server: Any) -> None:
    settings = neo4j_server.settings(label_prefix="TestDoctor")
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as memory:
        assert await memory.check_store() == []
        fact_key, text, order = (name_index(word, settings) for word in ("fact_key", "entity_text", "event_order"))
        await run_statement(memory, "app", f"DROP CONSTRAINT {fact_key}")
        await run_statement(memory, "app", f"CREATE INDEX {fact_key} FOR (n:TestDoctorFact) ON (n.scope, n.id)")
        await run_statement(memory, "app", f"DROP INDEX {text}")
        await run_statement(memory, "app", f"DROP INDEX {order}")
        await run_statement(memory, "app", f"CREATE INDEX {order} FOR (n:SomebodyElses) ON (n.scope)")
        [missing] = await memory.check_store()
        assert (missing.invariant, missing.count) == ("missing_indexes", 3)
        assert set(missing.details) == {fact_key, text, order}
        [taken] = await memory.check_store(mend=True)
        assert not taken.is_mended and "SomebodyElses" in taken.details[-1]
        await run_statement(memory, "app", f"DROP INDEX {order}")
        [mended] = await memory.check_store(mend=True)
        assert mended.is_mended and await memory.check_store() == []


@pytest.mark.slow
@pytest.mark.schema
@pytest.mark.xdist_group("doctor")  # these change one graph's indexes
async def test_settings_that_forbid_schema_changes_are_kept(neo4j_server: Any) -> None:
    settings = neo4j_server.settings(label_prefix="TestDoctor")
    async with GraphMemory(settings=settings, model="rules", embedder=False) as memory:
        await memory.check_store()
        name = name_index("user_app", settings)
        await run_statement(memory, "app", f"DROP INDEX {name}")
        checking = settings.model_copy(update={"schema_mode": "check"})
        async with GraphMemory(settings=checking, model="rules", embedder=False) as other:
            [left] = await other.check_store(mend=True)
        assert (left.details, left.is_mended) == ((name,), False) and "migrate --print" in left.way_out
        assert [finding.is_mended for finding in await memory.check_store(mend=True)] == [True]


@pytest.mark.slow
@pytest.mark.schema
@pytest.mark.xdist_group("doctor")
async def test_nodes_of_nobody_are_counted(neo4j_server: Any) -> None:
    async with GraphMemory(settings=neo4j_server.settings(label_prefix="TestDoctor"), embedder=False) as memory:
        assert await memory.check_store() == []
        await run_statement(
            memory, "lost", "CREATE (:@Entity {scope: $scope, key: 'k'}), (:@Ingest {scope: $scope, id: 'i'})"
        )
        [lost] = await memory.check_store(mend=True)
        assert (lost.invariant, lost.count, lost.is_mended) == ("ownerless_nodes", 2, False)
        assert await memory.check_store(owners=False) == []
        await run_statement(memory, "lost", "MATCH (n {scope: $scope}) DELETE n")


# -- the command --------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_command_says_what_is_wrong_and_its_exit_code_too(
    command: Any, neo4j_server: Any, app_name: str
) -> None:
    async with GraphMemory(settings=neo4j_server.settings(), model="rules", embedder=False) as memory:
        turn = Turn("t0", "user", "I live in Faro.", NOON)
        await memory.remember([turn], app_name=app_name, user_id="ada", session_id="s")
        await run_statement(memory, app_name, "MATCH (f:Fact {scope: $scope}) SET f.support = 9")
    whose = ("--app", app_name)
    shown = await command("doctor", *whose)
    assert shown.exit_code == 1
    assert "1 facts that miscount their quotes" in " ".join(shown.stdout.split())
    assert "doctor --mend" in shown.stderr
    value = json.loads((await command("doctor", *whose, "--json")).stdout)
    assert (value["users"], value["ill"], value["checkups"][0]["findings"][0]["count"]) == (1, 1, 1)
    mended = await command("doctor", *whose, "--mend")
    assert mended.exit_code == 0 and "1 memory mended." in mended.stdout
    again = json.loads((await command("doctor", *whose, "--json")).stdout)
    assert (again["ill"], again["mended"], again["checkups"]) == (0, 0, [])


async def test_an_empty_user_id_is_a_user_id(command: Any, neo4j_server: Any, app_name: str) -> None:
    async with GraphMemory(settings=neo4j_server.settings(), model="rules", embedder=False) as memory:
        turn = Turn("t0", "user", "I live in Faro.", NOON)
        await memory.remember([turn], app_name=app_name, user_id="ada", session_id="s")
    shown = await command("doctor", "--app", app_name, "--user", "", "--json")
    assert shown.exit_code == 1 and f"no user '' in app '{app_name}'" in json.loads(shown.stderr)["message"]


def test_as_many_users_are_kept_as_can_be_shown() -> None:
    tally = CheckupTally()
    for number in range(3 * MAX_USERS_SHOWN):
        tally.add_checkup(Checkup("app", str(number), 1, differences=1, is_mended=False, waiting=0, unembedded=0))
        tally.add_checkup(Checkup("app", f"well {number}", 1, differences=0, is_mended=False, waiting=0, unembedded=0))
    assert (tally.users, tally.ill, len(tally.checkups)) == (6 * MAX_USERS_SHOWN, 3 * MAX_USERS_SHOWN, MAX_USERS_SHOWN)
    assert tally.unlisted == 2 * MAX_USERS_SHOWN


def test_what_has_no_vector_is_no_fault_and_has_a_way_out() -> None:
    checkup = Checkup("app", "ana", 1, differences=0, is_mended=False, waiting=0, unembedded=2)
    tally = CheckupTally()
    tally.add_checkup(checkup)
    assert not tally.ill
    assert ["--mend` embeds" in hint for hint in list_hints(tally, [], mend=False)] == [True]
    assert list_hints(tally, [], mend=True) == []
