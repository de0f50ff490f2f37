"""A database becomes fit for this release, once, by us or by a DBA, or says why not.

The tests share a server of their own, and keep apart by label prefixes: each prefix is a fresh database.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import neo4j
import pytest

from adk_graph_memory import errors
from adk_graph_memory.graph import json_map, sessions, vector_slots
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j
from adk_graph_memory.graph.schema import (
    compute_checksum,
    get_schema_version,
    migrate_schema,
    name_text_index,
    parse_server_line,
    render_migration_script,
)
from adk_graph_memory.graph.statements import LABELS, CypherStatements, fill_identifiers, load_cypher_files, name_index
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("migrations")]

PREFIXES = (f"T{number}x" for number in itertools.count())
DIMENSIONS = 8
NOTHING = json_map.JsonMapDelta()

SCHEMA = [block for blocks in load_cypher_files("migrations").values() for block in blocks]
ONE_FOR_THE_DATABASE = {"App", "Meta", "Migration"}
"""Labels whose keys belong to no user."""

MAY_SCAN = {
    # Asks, once in a database's life, for nodes that no index of ours holds.
    "foreign_labels": {"NodeByLabelScan"},
    # Rows that are found by their keys, one each: their product is one row.
    "session_states": {"CartesianProduct"},
    "unread_turns": {"CartesianProduct"},
    "claim_turns": {"CartesianProduct"},
    "list_sessions_of_user": {"CartesianProduct"},
    "list_sessions_of_app": {"CartesianProduct"},
    "write_changes": {"CartesianProduct"},
    "shared_entities": {"CartesianProduct"},
    # A new embedder goes through the whole database, once.
    "reembed_unmark": {"UnionNodeByLabelsScan"},
    "reembed_failures": {"UnionNodeByLabelsScan"},
    "reembed_empty": {"UnionNodeByLabelsScan"},
    "reembed_reopen": {"CartesianProduct"},
    # All of a user's, beside the one Meta node.
    "broken_invariants": {"CartesianProduct"},
    "mark_unembedded": {"CartesianProduct"},
    "mend_foreign_vectors": {"CartesianProduct"},
    # A doctor looks, once in a checkup of the whole database, for nodes of users that it does not know.
    "ownerless_nodes": {"NodeByLabelScan"},
}
"""Blocks whose plans may hold what is costly, and why."""

COSTLY = {"AllNodesScan", "NodeByLabelScan", "UnionNodeByLabelsScan", "CartesianProduct"}
MIGRATE = """
import asyncio, os
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.runtime.settings import Settings
statements_left, run_cypher = int(os.environ["T_STATEMENTS"]), Connection.run_cypher

async def run_and_die(self, *arguments, **options):
    global statements_left
    if not statements_left:
        os._exit(9)
    statements_left -= 1
    return await run_cypher(self, *arguments, **options)

Connection.run_cypher = run_and_die
settings = Settings(uri=os.environ["T_URI"], password=os.environ["T_PASSWORD"], label_prefix=os.environ["T_PREFIX"])
asyncio.run(Connection(settings=settings).prepare())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[LocalNeo4j]:
    started = LocalNeo4j().start()
    yield started
    started.close()


@pytest.fixture(scope="module")
def dba(server: LocalNeo4j) -> Iterator[neo4j.Session]:
    """Somebody with a plain driver, who knows nothing of this package."""
    with neo4j.GraphDatabase.driver(server.uri, auth=server.auth) as driver, driver.session() as session:
        yield session


@pytest.fixture
def prefix() -> str:
    """As good as a fresh database."""
    return next(PREFIXES)


@pytest.fixture
async def deployed(server: LocalNeo4j, prefix: str) -> AsyncIterator[Callable[..., Connection]]:
    """Makes connections of one deployment (or of the label prefix that is given) and closes them."""
    made: list[Connection] = []

    def make(**chosen: Any) -> Connection:
        user, password = server.auth
        chosen = {"label_prefix": prefix, **chosen}
        made.append(Connection(settings=Settings(uri=server.uri, username=user, password=password, **chosen)))
        return made[-1]

    yield make
    for connection in made:
        await connection.close()


@pytest.fixture(scope="module")
def migrated_prefix(server: LocalNeo4j) -> str:
    """A deployment with this release's schema and no slot, for tests that leave the schema as it is."""
    return asyncio.run(prepare(server))


async def prepare(server: LocalNeo4j, *slots: str) -> str:
    prefix, (user, password) = next(PREFIXES), server.auth
    settings = Settings(uri=server.uri, username=user, password=password, label_prefix=prefix)
    async with Connection(settings=settings) as connection:
        await connection.prepare()
        for slot in slots:
            await vector_slots.open_slot(connection, slot, "minilm", DIMENSIONS)
    return prefix


def rows(dba: neo4j.Session, text: str, **parameters: Any) -> list[dict[str, Any]]:
    return dba.run(text, parameters).data()


def schema_of(dba: neo4j.Session, prefix: str) -> dict[str, list[dict[str, Any]]]:
    """What the deployment of this prefix has in the database; Neo4j's ids tell what was made anew."""
    ours = {f"{prefix}{label}" for label in LABELS}
    found = {}
    for kind in ("CONSTRAINTS", "INDEXES"):
        listed = rows(dba, f"SHOW {kind} YIELD *")
        found[kind] = sorted(
            (row for row in listed if ours & set(row["labelsOrTypes"] or ())), key=lambda row: row["id"]
        )
    return found


def named_by_schema(prefix: str) -> set[str]:
    settings = Settings(label_prefix=prefix)
    texts = [fill_identifiers(block.text, settings) for block in SCHEMA]
    made = {name for text in texts for name in re.findall(r"(?:CONSTRAINT|INDEX) (\w+) IF NOT EXISTS", text)}
    return made | {name_index(name_text_index(one), settings) for one in settings.analyzers}


# -- auto -------------------------------------------------------------------------------------------------------


async def test_a_fresh_database_gets_its_version(deployed: Callable[..., Connection], migrated_prefix: str) -> None:
    connection = deployed(label_prefix=migrated_prefix)
    assert (await vector_slots.fetch_schema_state(connection)).version == get_schema_version()


@pytest.mark.full
async def test_every_migration_leaves_a_record(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    connection = deployed()
    await connection.prepare()
    recorded = rows(
        dba, f"MATCH (m:{prefix}Migration) RETURN m.name AS name, m.checksum AS checksum ORDER BY m.version"
    )
    assert recorded == [
        {"name": name, "checksum": compute_checksum(blocks)} for name, blocks in load_cypher_files("migrations").items()
    ]
    assert recorded[-1]["checksum"] == (await vector_slots.fetch_schema_state(connection)).checksum


async def test_every_constraint_and_index_is_there_and_online(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    await deployed().prepare()
    schema = schema_of(dba, prefix)
    assert {row["name"] for row in schema["INDEXES"]} == named_by_schema(prefix)
    assert {row["state"] for row in schema["INDEXES"]} == {"ONLINE"}


def test_every_key_holds_the_scope(dba: neo4j.Session, migrated_prefix: str) -> None:
    keys = schema_of(dba, migrated_prefix)["CONSTRAINTS"]
    without = {
        row["labelsOrTypes"][0].removeprefix(migrated_prefix) for row in keys if "scope" not in row["properties"]
    }
    assert without == ONE_FOR_THE_DATABASE


def test_every_label_has_a_key(dba: neo4j.Session, migrated_prefix: str) -> None:
    keys = schema_of(dba, migrated_prefix)["CONSTRAINTS"]
    assert {row["labelsOrTypes"][0].removeprefix(migrated_prefix) for row in keys} == LABELS


async def test_migrating_again_changes_nothing(
    deployed: Callable[..., Connection], dba: neo4j.Session, migrated_prefix: str
) -> None:
    def everything() -> list[Any]:
        nodes = rows(
            dba,
            "MATCH (n) WHERE any(l IN labels(n) WHERE l STARTS WITH $p) RETURN n ORDER BY elementId(n)",
            p=migrated_prefix,
        )
        schema = schema_of(dba, migrated_prefix)
        read = {"lastRead", "readCount", "trackedSince"}
        return [nodes, [{k: v for k, v in row.items() if k not in read} for kind in schema for row in schema[kind]]]

    before = everything()
    await deployed(label_prefix=migrated_prefix).prepare()
    await migrate_schema(deployed(label_prefix=migrated_prefix))
    assert everything() == before


@pytest.mark.full
async def test_many_connections_migrate_at_once(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    await asyncio.gather(*(deployed().prepare() for _ in range(6)))
    assert count(dba, prefix) == {"Meta": 1, "Migration": 1}


def start_migrating(server: LocalNeo4j, prefix: str, statements: int = -1) -> subprocess.Popen[str]:
    """Start a process that prepares a graph; it dies before the next statement if so many were run."""
    environment = {"T_URI": server.uri, "T_PASSWORD": server.auth[1], "T_PREFIX": prefix}
    return subprocess.Popen(
        [sys.executable, "-c", MIGRATE],
        env=os.environ | environment | {"T_STATEMENTS": str(statements)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_migrate_at_once(server: LocalNeo4j, dba: neo4j.Session, prefix: str) -> None:
    processes = [start_migrating(server, prefix) for _ in range(2)]
    complaints = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], complaints
    assert count(dba, prefix) == {"Meta": 1, "Migration": 1}
    assert {row["name"] for row in schema_of(dba, prefix)["INDEXES"]} == named_by_schema(prefix)


@pytest.mark.parametrize("statements", [1, len(SCHEMA) // 2, pytest.param(len(SCHEMA), marks=pytest.mark.full)])
async def test_a_process_that_dies_halfway_leaves_what_the_next_one_completes(
    server: LocalNeo4j, deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str, statements: int
) -> None:
    killed = start_migrating(server, prefix, statements)
    assert (killed.communicate(timeout=120), killed.returncode) == ((None, ""), 9)
    assert 0 < len(schema_of(dba, prefix)["INDEXES"]) < len(named_by_schema(prefix))
    connection = deployed()
    await connection.prepare()
    assert (await vector_slots.fetch_schema_state(connection)).version == get_schema_version()
    assert {row["name"] for row in schema_of(dba, prefix)["INDEXES"]} == named_by_schema(prefix)
    assert count(dba, prefix) == {"Meta": 1, "Migration": 1}


async def test_an_index_that_a_dead_server_left_of_a_constraint_gives_way_to_it(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    """Neo4j makes a constraint's index first; killed in between, it keeps the index and refuses the constraint."""
    for name, label, key in (("meta_key", "Meta", "key"), ("app_key", "App", "app_name")):
        index = name_index(name, Settings(label_prefix=prefix))
        dba.run(f"CREATE INDEX `{index}` FOR (n:{prefix}{label}) ON (n.{key})").consume()
    await deployed().prepare()
    made = [row["name"] for row in schema_of(dba, prefix)["CONSTRAINTS"]]
    assert {name_index(name, Settings(label_prefix=prefix)) for name in ("meta_key", "app_key")} < set(made)


async def test_a_constraint_that_another_process_makes_meanwhile_stays(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one process makes a constraint, another is told of its index; a moment later the constraint is there."""
    run_cypher, raced = Connection.run_cypher, list[str]()

    async def race(connection: Connection, text: str, *arguments: Any, **options: Any) -> Any:
        if "CONSTRAINT" in text and text not in raced:
            raced.append(text)
            dba.run(text).consume()
            raise errors.QueryFailed(reason="There already exists an index")
        return await run_cypher(connection, text, *arguments, **options)

    monkeypatch.setattr(Connection, "run_cypher", race)
    await deployed().prepare()
    assert len(schema_of(dba, prefix)["CONSTRAINTS"]) == len(raced) > 10
    assert {row["name"] for row in schema_of(dba, prefix)["INDEXES"]} == named_by_schema(prefix)


async def test_an_index_of_another_label_stays_though_its_name_is_needed(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    index = name_index("app_key", Settings(label_prefix=prefix))
    dba.run(f"CREATE INDEX `{index}` FOR (n:{prefix}Other) ON (n.app_name)").consume()
    with pytest.raises(errors.QueryFailed, match=index):
        await deployed().prepare()
    assert [row["labelsOrTypes"] for row in rows(dba, "SHOW INDEXES YIELD *") if row["name"] == index] == [
        [f"{prefix}Other"]
    ]


def count(dba: neo4j.Session, prefix: str) -> dict[str, int]:
    return {
        label: rows(dba, f"MATCH (n:{prefix}{label}) RETURN count(n) AS n")[0]["n"] for label in ("Meta", "Migration")
    }


# -- check and off ----------------------------------------------------------------------------------------------


async def test_check_refuses_a_fresh_database_and_names_the_command(deployed: Callable[..., Connection]) -> None:
    with pytest.raises(errors.SchemaMissing, match="adk-graph-memory migrate") as raised:
        await deployed(schema="check").prepare()
    assert all(name in str(raised.value) for name in load_cypher_files("migrations"))


@pytest.mark.parametrize("mode", ["check", "off"])
async def test_only_auto_changes_the_schema(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str, mode: str
) -> None:
    try:
        await deployed(schema=mode).prepare()
    except errors.SchemaMissing:
        assert mode == "check"
    assert schema_of(dba, prefix) == {"CONSTRAINTS": [], "INDEXES": []}


async def test_check_accepts_what_auto_made(deployed: Callable[..., Connection], migrated_prefix: str) -> None:
    await deployed(label_prefix=migrated_prefix, schema="check").prepare()


async def test_check_accepts_what_a_dba_made_of_the_printed_script(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    run_as_cypher_shell(dba, render_migration_script(Settings(label_prefix=prefix)))
    connection = deployed(schema="check")
    await connection.prepare()
    assert (await vector_slots.fetch_schema_state(connection)).version == get_schema_version()
    assert {row["name"] for row in schema_of(dba, prefix)["INDEXES"]} == named_by_schema(prefix)


@pytest.mark.full
async def test_the_printed_script_may_run_twice(dba: neo4j.Session, prefix: str) -> None:
    for _ in range(2):
        run_as_cypher_shell(dba, render_migration_script(Settings(label_prefix=prefix)))
    assert count(dba, prefix) == {"Meta": 1, "Migration": 1}


@pytest.mark.full
async def test_a_dbas_records_equal_ours(deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str) -> None:
    run_as_cypher_shell(dba, render_migration_script(Settings(label_prefix=prefix)))
    other = next(PREFIXES)
    await deployed(label_prefix=other).prepare()
    query = "MATCH (m:{}Migration) RETURN m.version AS version, m.name AS name, m.checksum AS checksum ORDER BY version"
    assert rows(dba, query.format(prefix)) == rows(dba, query.format(other))


def run_as_cypher_shell(dba: neo4j.Session, script: str) -> None:
    """Statements end with a semicolon at a line's end; ``:param {…}`` sets parameters for those behind it."""
    parameters: dict[str, Any] = {}
    statement: list[str] = []
    for line in script.splitlines():
        if line.startswith(":param "):
            parameters |= rows(dba, f"RETURN {line.removeprefix(':param ')} AS given")[0]["given"]
            continue
        statement.append(line)
        if line.endswith(";"):
            dba.run("\n".join(statement).removesuffix(";"), parameters).consume()
            statement.clear()
    assert not statement


async def test_a_newer_schema_is_left_alone(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    newer = get_schema_version() + 1
    dba.run(f"CREATE (:{prefix}Meta {{key: 'schema', version: {newer}}})").consume()
    for mode in ("auto", "check"):
        with pytest.raises(errors.SchemaTooNew, match=f"{newer}.*upgrade"):
            await deployed(schema=mode).prepare()
    assert schema_of(dba, prefix) == {"CONSTRAINTS": [], "INDEXES": []}


UNKNOWN_SCHEMAS = [
    pytest.param({"version": 9}, id="nine-migrations"),
    pytest.param({"version": 1}, id="first-of-nine"),
    pytest.param({"version": get_schema_version()}, id="without-a-checksum"),
    pytest.param({"version": get_schema_version(), "checksum": "of another file"}, id="another-file"),
]


@pytest.mark.parametrize("state", UNKNOWN_SCHEMAS)
async def test_the_schema_of_another_checkout_is_left_alone(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str, state: dict[str, Any]
) -> None:
    def fetch_meta() -> list[dict[str, Any]]:
        return rows(dba, f"MATCH (m:{prefix}Meta) RETURN m {{.version, .checksum}} AS meta")

    dba.run(f"CREATE (m:{prefix}Meta {{key: 'schema'}}) SET m += $state", state=state).consume()
    before = fetch_meta()
    for mode in ("auto", "check"):
        with pytest.raises(errors.SchemaUnknown, match=rf"(?s)schema {state['version']}.*LABEL_PREFIX"):
            await deployed(schema=mode).prepare()
    assert (schema_of(dba, prefix), fetch_meta()) == ({"CONSTRAINTS": [], "INDEXES": []}, before)
    with pytest.raises(errors.SchemaUnknown):
        await migrate_schema(deployed())

    run_as_cypher_shell(dba, render_migration_script(Settings(label_prefix=prefix)))
    assert (fetch_meta(), count(dba, prefix)["Migration"]) == (before, 0)
    with pytest.raises(errors.SchemaUnknown):
        await deployed(schema="check").prepare()


async def test_off_asks_nothing(deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str) -> None:
    dba.run(f"CREATE (:{prefix}Meta {{key: 'schema', version: 99}})").consume()
    await deployed(schema="off").prepare()


# -- somebody else's data ---------------------------------------------------------------------------------------


@pytest.fixture
def foreign(dba: neo4j.Session, prefix: str) -> str:
    """A database that holds an application's own sessions and entities, under our labels."""
    dba.run(f"CREATE (:{prefix}Session {{started: 1}}), (:{prefix}Entity {{name: 'Ada'}}), (:{prefix}Event)").consume()
    return prefix


async def test_labels_that_are_taken_are_named(deployed: Callable[..., Connection], foreign: str) -> None:
    with pytest.raises(errors.LabelConflict) as raised:
        await deployed().prepare()
    assert raised.value.labels == f"{foreign}Session, {foreign}Event, {foreign}Entity"
    assert "LABEL_PREFIX" in str(raised.value)


async def test_every_label_is_asked_for(deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str) -> None:
    connection = deployed()
    await connection.fetch_server_agent()
    for label in sorted(LABELS - {"Meta"}):
        dba.run(f"CREATE (:{prefix}{label} {{made_by: 'somebody else'}})").consume()
        assert [row["label"] for row in await connection.run_statement("foreign_labels")] == [f"{prefix}{label}"]
        dba.run(f"MATCH (n:{prefix}{label}) DELETE n").consume()


async def test_a_refused_database_stays_as_it_was(
    deployed: Callable[..., Connection], dba: neo4j.Session, foreign: str
) -> None:
    with pytest.raises(errors.LabelConflict):
        await deployed().prepare()
    assert schema_of(dba, foreign) == {"CONSTRAINTS": [], "INDEXES": []}
    assert count(dba, foreign) == {"Meta": 0, "Migration": 0}


async def test_somebody_elses_meta_nodes_count_as_taken(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    dba.run(f"UNWIND [1, 2] AS _ CREATE (:{prefix}Meta {{key: 'title'}})").consume()
    with pytest.raises(errors.LabelConflict, match=f"{prefix}Meta"):
        await deployed().prepare()


async def test_taken_labels_may_be_shared_on_purpose(deployed: Callable[..., Connection], foreign: str) -> None:
    connection = deployed(shared_database=True)
    await connection.prepare()
    assert (await vector_slots.fetch_schema_state(connection)).version == get_schema_version()


async def test_a_label_prefix_keeps_clear_of_taken_labels(
    deployed: Callable[..., Connection], dba: neo4j.Session, foreign: str
) -> None:
    await deployed(label_prefix=f"{foreign}Adk").prepare()
    assert rows(dba, f"MATCH (s:{foreign}Session) RETURN count(s) AS n") == [{"n": 1}]


async def test_a_migrated_database_is_not_asked_again(
    deployed: Callable[..., Connection], dba: neo4j.Session, migrated_prefix: str
) -> None:
    dba.run(f"CREATE (:{migrated_prefix}Session)").consume()
    await deployed(label_prefix=migrated_prefix).prepare()


@pytest.mark.parametrize(("one", "other"), [("Left", "Right"), pytest.param("Same", "SAME", marks=pytest.mark.full)])
async def test_two_label_prefixes_do_not_see_each_other(
    deployed: Callable[..., Connection], dba: neo4j.Session, one: str, other: str
) -> None:
    left, right = deployed(label_prefix=one), deployed(label_prefix=other)
    scope = Scope("app", "ada")
    for connection in (left, right):
        await connection.prepare()
        await sessions.store_session(
            connection.user(scope), id="s", uid="u", now=1.0, app=NOTHING, user=NOTHING, session=NOTHING
        )
    await sessions.remove_session(left.user(scope), id="s", now=2.0)
    assert await sessions.fetch_session(left.user(scope), id="s", now=2.0) is None
    assert await sessions.fetch_session(right.user(scope), id="s", now=2.0) is not None
    assert {row["name"] for row in schema_of(dba, other)["INDEXES"]} == named_by_schema(other)


async def test_a_name_that_another_graph_has_is_told(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    name = f"adk_event_memory_key_OF_{prefix}"
    dba.run(f"CREATE CONSTRAINT {name} FOR (n:Other{prefix}) REQUIRE n.key IS UNIQUE").consume()
    with pytest.raises(errors.IndexNameTaken, match=rf"(?s)'{name}', for label Other{prefix},.*LABEL_PREFIX"):
        await deployed().prepare()
    dba.run(f"DROP CONSTRAINT {name}").consume()
    await deployed().prepare()
    assert {row["name"] for row in schema_of(dba, prefix)["INDEXES"]} == named_by_schema(prefix)


# -- slots ------------------------------------------------------------------------------------------------------


async def test_the_first_slot_filled_is_live(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    connection = deployed()
    await connection.prepare()
    assert (await vector_slots.fetch_schema_state(connection)).live_slot is None
    first = await vector_slots.open_slot(connection, "a", "minilm", DIMENSIONS)
    vectors = [row for row in schema_of(dba, prefix)["INDEXES"] if row["type"] == "VECTOR"]
    await vector_slots.open_slot(connection, "b", "larger", 2 * DIMENSIONS)
    state = await vector_slots.fetch_schema_state(connection)
    assert (state.live_slot, [slot.name for slot in state.slots]) == (first, ["a", "b"])
    if connection.server_line == "5.26":
        assert vectors == []
        return
    assert sorted(row["labelsOrTypes"][0] for row in vectors) == [f"{prefix}Entity", f"{prefix}Memory"]
    assert {row["state"] for row in vectors} == {"ONLINE"}  # as soon as the slot is open
    assert all("scope" in row["properties"] for row in vectors)


# -- every statement --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared_prefix(server: LocalNeo4j) -> str:
    """A deployment with both slots open, for EXPLAIN: a plan needs the indexes that it names."""
    return asyncio.run(prepare(server, *"ab"))


@pytest.fixture
def statements(server: LocalNeo4j, prepared_prefix: str) -> CypherStatements:
    line = parse_server_line(f"Neo4j/{server.version}")
    return CypherStatements.from_settings(Settings(label_prefix=prepared_prefix), line)


def explained(dba: neo4j.Session, statement: str) -> set[str]:
    parameters = dict.fromkeys(re.findall(r"\$(\w+)", statement)) | {"options": {}}
    return set(operators(dict(dba.run(f"EXPLAIN {statement}", parameters).consume().plan or {})))


def operators(plan: dict[str, Any]) -> Iterator[str]:
    if plan:
        yield plan["operatorType"].partition("@")[0]
    for child in plan.get("children", ()):
        yield from operators(child)


def test_the_server_understands_each_block_and_finds_its_nodes_by_index(
    dba: neo4j.Session, statements: CypherStatements
) -> None:
    plans = {name: explained(dba, statements[name]) for name in statements}
    assert {name: costly for name, operators in plans.items() if (costly := operators & COSTLY)} == MAY_SCAN
