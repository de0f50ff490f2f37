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
from datetime import UTC, datetime
from typing import Any

import neo4j
import pytest

from adk_graph_memory import GraphMemory, Turn, errors, graph
from adk_graph_memory.graph import analyzers, migrate, vector_slots
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.queries import (
    FRAGMENT,
    LABELS,
    UNBOUNDED,
    CypherBlock,
    CypherStatements,
    fill_identifiers,
    load_cypher_files,
    name_index,
)
from adk_graph_memory.local_neo4j import LocalNeo4j
from adk_graph_memory.records import Scope
from adk_graph_memory.settings import Settings
from adk_graph_memory.testing import HashEmbedder

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("migrations")]

PREFIXES = (f"T{number}x" for number in itertools.count())
DIMENSIONS = 8
NOTHING = graph.sessions.JsonMapDelta()

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
    "rewrite_mentions": {"CartesianProduct"},
    "shared_entities": {"CartesianProduct"},
    # Goes through the whole database, once.
    "turn_origins": {"NodeByLabelScan"},
    "fact_origins": {"NodeByLabelScan"},
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
from adk_graph_memory import graph
from adk_graph_memory.settings import Settings
settings = Settings(uri=os.environ["T_URI"], password=os.environ["T_PASSWORD"], label_prefix=os.environ["T_PREFIX"])
asyncio.run(graph.prepare_connection(graph.Connection(settings=settings)))
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
        await graph.prepare_connection(connection)
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


def named_by_migrations(prefix: str) -> set[str]:
    settings = Settings(label_prefix=prefix)
    texts = [
        fill_identifiers(block.text, settings)
        for blocks in load_cypher_files("migrations").values()
        for block in blocks
    ]
    made = {name for text in texts for name in re.findall(r"(?:CONSTRAINT|INDEX) (\w+) IF NOT EXISTS", text)}
    dropped = {name for text in texts for name in re.findall(r"DROP INDEX (\w+) IF EXISTS", text)}
    return made - dropped | {name_index(analyzers.name_text_index(one), settings) for one in settings.analyzers}


# -- auto -------------------------------------------------------------------------------------------------------


async def test_a_fresh_database_gets_its_version(deployed: Callable[..., Connection], migrated_prefix: str) -> None:
    connection = deployed(label_prefix=migrated_prefix)
    assert (await vector_slots.fetch_schema_state(connection)).version == migrate.get_schema_version()


@pytest.mark.full
async def test_every_migration_leaves_a_record(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    await graph.prepare_connection(deployed())
    recorded = rows(
        dba, f"MATCH (m:{prefix}Migration) RETURN m.name AS name, m.checksum AS checksum ORDER BY m.version"
    )
    assert recorded == [
        {"name": name, "checksum": migrate.compute_checksum(blocks)}
        for name, blocks in load_cypher_files("migrations").items()
    ]


async def test_every_constraint_and_index_is_there_and_online(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    await graph.prepare_connection(deployed())
    schema = schema_of(dba, prefix)
    assert {row["name"] for row in schema["INDEXES"]} == named_by_migrations(prefix)
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
    await graph.prepare_connection(deployed(label_prefix=migrated_prefix))
    await migrate.migrate_schema(deployed(label_prefix=migrated_prefix))
    assert everything() == before


@pytest.mark.full
async def test_many_connections_migrate_at_once(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    await asyncio.gather(*(graph.prepare_connection(deployed()) for _ in range(6)))
    assert count(dba, prefix) == {"Meta": 1, "Migration": migrate.get_schema_version()}


def test_two_processes_migrate_at_once(server: LocalNeo4j, dba: neo4j.Session, prefix: str) -> None:
    environment = os.environ | {"T_URI": server.uri, "T_PASSWORD": server.auth[1], "T_PREFIX": prefix}
    processes = [
        subprocess.Popen([sys.executable, "-c", MIGRATE], env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    complaints = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], complaints
    assert count(dba, prefix) == {"Meta": 1, "Migration": migrate.get_schema_version()}
    assert {row["name"] for row in schema_of(dba, prefix)["INDEXES"]} == named_by_migrations(prefix)


def count(dba: neo4j.Session, prefix: str) -> dict[str, int]:
    return {
        label: rows(dba, f"MATCH (n:{prefix}{label}) RETURN count(n) AS n")[0]["n"] for label in ("Meta", "Migration")
    }


# -- check and off ----------------------------------------------------------------------------------------------


async def test_check_refuses_a_fresh_database_and_names_the_command(deployed: Callable[..., Connection]) -> None:
    with pytest.raises(errors.SchemaMissing, match="adk-graph-memory migrate") as raised:
        await graph.prepare_connection(deployed(schema="check"))
    assert all(name in str(raised.value) for name in load_cypher_files("migrations"))


@pytest.mark.parametrize("mode", ["check", "off"])
async def test_only_auto_changes_the_schema(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str, mode: str
) -> None:
    try:
        await graph.prepare_connection(deployed(schema=mode))
    except errors.SchemaMissing:
        assert mode == "check"
    assert schema_of(dba, prefix) == {"CONSTRAINTS": [], "INDEXES": []}


async def test_check_accepts_what_auto_made(deployed: Callable[..., Connection], migrated_prefix: str) -> None:
    await graph.prepare_connection(deployed(label_prefix=migrated_prefix, schema="check"))


async def test_check_accepts_what_a_dba_made_of_the_printed_script(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    run_as_cypher_shell(dba, migrate.make_migration_script(Settings(label_prefix=prefix)))
    connection = await graph.prepare_connection(deployed(schema="check"))
    assert (await vector_slots.fetch_schema_state(connection)).version == migrate.get_schema_version()
    assert {row["name"] for row in schema_of(dba, prefix)["INDEXES"]} == named_by_migrations(prefix)


@pytest.mark.full
async def test_the_printed_script_may_run_twice(dba: neo4j.Session, prefix: str) -> None:
    for _ in range(2):
        run_as_cypher_shell(dba, migrate.make_migration_script(Settings(label_prefix=prefix)))
    assert count(dba, prefix) == {"Meta": 1, "Migration": migrate.get_schema_version()}


@pytest.mark.full
async def test_a_dbas_records_equal_ours(deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str) -> None:
    run_as_cypher_shell(dba, migrate.make_migration_script(Settings(label_prefix=prefix)))
    other = next(PREFIXES)
    await graph.prepare_connection(deployed(label_prefix=other))
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
    dba.run(f"CREATE (:{prefix}Meta {{key: 'schema', version: 99}})").consume()
    for mode in ("auto", "check"):
        with pytest.raises(errors.SchemaTooNew, match=r"99.*upgrade"):
            await graph.prepare_connection(deployed(schema=mode))
    assert schema_of(dba, prefix) == {"CONSTRAINTS": [], "INDEXES": []}


async def test_off_asks_nothing(deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str) -> None:
    dba.run(f"CREATE (:{prefix}Meta {{key: 'schema', version: 99}})").consume()
    await graph.prepare_connection(deployed(schema="off"))


# -- somebody else's data ---------------------------------------------------------------------------------------


@pytest.fixture
def foreign(dba: neo4j.Session, prefix: str) -> str:
    """A database that holds an application's own sessions and entities, under our labels."""
    dba.run(f"CREATE (:{prefix}Session {{started: 1}}), (:{prefix}Entity {{name: 'Ada'}}), (:{prefix}Event)").consume()
    return prefix


async def test_labels_that_are_taken_are_named(deployed: Callable[..., Connection], foreign: str) -> None:
    with pytest.raises(errors.LabelConflict) as raised:
        await graph.prepare_connection(deployed())
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
        await graph.prepare_connection(deployed())
    assert schema_of(dba, foreign) == {"CONSTRAINTS": [], "INDEXES": []}
    assert count(dba, foreign) == {"Meta": 0, "Migration": 0}


async def test_somebody_elses_meta_nodes_count_as_taken(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    dba.run(f"UNWIND [1, 2] AS _ CREATE (:{prefix}Meta {{key: 'title'}})").consume()
    with pytest.raises(errors.LabelConflict, match=f"{prefix}Meta"):
        await graph.prepare_connection(deployed())


async def test_taken_labels_may_be_shared_on_purpose(deployed: Callable[..., Connection], foreign: str) -> None:
    connection = await graph.prepare_connection(deployed(shared_database=True))
    assert (await vector_slots.fetch_schema_state(connection)).version == migrate.get_schema_version()


async def test_a_label_prefix_keeps_clear_of_taken_labels(
    deployed: Callable[..., Connection], dba: neo4j.Session, foreign: str
) -> None:
    await graph.prepare_connection(deployed(label_prefix=f"{foreign}Adk"))
    assert rows(dba, f"MATCH (s:{foreign}Session) RETURN count(s) AS n") == [{"n": 1}]


async def test_a_migrated_database_is_not_asked_again(
    deployed: Callable[..., Connection], dba: neo4j.Session, migrated_prefix: str
) -> None:
    dba.run(f"CREATE (:{migrated_prefix}Session)").consume()
    await graph.prepare_connection(deployed(label_prefix=migrated_prefix))


@pytest.mark.parametrize(("one", "other"), [("Left", "Right"), pytest.param("Same", "SAME", marks=pytest.mark.full)])
async def test_two_label_prefixes_do_not_see_each_other(
    deployed: Callable[..., Connection], dba: neo4j.Session, one: str, other: str
) -> None:
    left, right = deployed(label_prefix=one), deployed(label_prefix=other)
    scope = Scope("app", "ada")
    for connection in (await graph.prepare_connection(left), await graph.prepare_connection(right)):
        await graph.sessions.store_session(
            connection, scope, id="s", uid="u", now=1.0, app=NOTHING, user=NOTHING, session=NOTHING
        )
    await graph.sessions.remove_session(left, scope, id="s", now=2.0)
    assert await graph.sessions.fetch_session(left, scope, id="s", now=2.0) is None
    assert await graph.sessions.fetch_session(right, scope, id="s", now=2.0) is not None
    assert {row["name"] for row in schema_of(dba, other)["INDEXES"]} == named_by_migrations(other)


# -- slots ------------------------------------------------------------------------------------------------------


async def test_the_first_slot_filled_is_live(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    connection = await graph.prepare_connection(deployed())
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


BLOCKS = [
    (file, block)
    for folder in ("cypher", "migrations")
    for file, blocks in load_cypher_files(folder).items()
    for block in blocks
    if block.tag != FRAGMENT
]


def plan(dba: neo4j.Session, server: LocalNeo4j, prefix: str, case: tuple[str, CypherBlock]) -> set[str] | None:
    """The operators of the block's plan, or None where the block is for another server line."""
    file, block = case
    line, settings = migrate.parse_server_line(f"Neo4j/{server.version}"), Settings(label_prefix=prefix)
    if block.tag not in (None, UNBOUNDED, line):
        return None
    whole = (
        fill_identifiers(block.text, settings)
        if file in load_cypher_files("migrations")
        else CypherStatements.from_settings(settings, line)[block.name]
    )
    return explained(dba, whole)


def explained(dba: neo4j.Session, statement: str) -> set[str]:
    parameters = dict.fromkeys(re.findall(r"\$(\w+)", statement)) | {"options": {}}
    return set(operators(dict(dba.run(f"EXPLAIN {statement}", parameters).consume().plan or {})))


def operators(plan: dict[str, Any]) -> Iterator[str]:
    if plan:
        yield plan["operatorType"].partition("@")[0]
    for child in plan.get("children", ()):
        yield from operators(child)


def test_the_server_understands_each_block_and_finds_its_nodes_by_index(
    dba: neo4j.Session, server: LocalNeo4j, prepared_prefix: str
) -> None:
    plans = [(case[1].name, plan(dba, server, prepared_prefix, case) or set()) for case in BLOCKS]
    assert {name: costly for name, operators in plans if (costly := operators & COSTLY)} == MAY_SCAN


def test_the_retrieval_query_goes_on_from_the_hits(
    dba: neo4j.Session, server: LocalNeo4j, prepared_prefix: str
) -> None:
    statements = CypherStatements.from_settings(
        Settings(label_prefix=prepared_prefix), migrate.parse_server_line(f"Neo4j/{server.version}")
    )
    whole = f"CALL () {{\n{statements['results']}\n}}\n{statements.fragments['retrieval_query']}"
    assert not explained(dba, whole) & COSTLY


# -- names of indexes and constraints -----------------------------------------------------------------------------

ADA = {"app_name": "app", "user_id": "ada"}
TOLD = ("I play the cello.", "My sister Clara moved to Lisbon.")
NOT_COMPARED = {"id", "name", "lastRead", "readCount", "trackedSince", "createStatement", "owningConstraint"}
NOT_COMPARED |= {"ownedIndex", "populationPercent"}


LATER = "memory_proposal"
"""An index that schema version 5 did not have."""


def age(dba: neo4j.Session, prefix: str, index_prefix: str = "adk_") -> None:
    """Name a graph's indexes and constraints as schema version 5 did: by two prefixes, neither told from the rest."""
    schema = schema_of(dba, prefix)
    constraints = {row["name"] for row in schema["CONSTRAINTS"]}
    for row in schema["INDEXES"]:
        name, former = row["name"], former_name(row["name"], prefix, index_prefix)
        dba.run(f"DROP {'CONSTRAINT' if name in constraints else 'INDEX'} `{name}`").consume()
        if LATER in name:
            continue
        line = "CYPHER 25 " if row["type"] == "VECTOR" else ""
        dba.run(line + row["createStatement"].replace(f"`{name}`", f"`{former}`")).consume()
    forget_migrations(dba, prefix)


def former_name(name: str, prefix: str, index_prefix: str = "adk_") -> str:
    word = name.removeprefix("adk_").removesuffix(f"_OF_{prefix}")
    return f"{index_prefix}{prefix}{word.replace('-', '_')}"


def forget_migrations(dba: neo4j.Session, prefix: str) -> None:
    """Forget all since schema version 5."""
    dba.run(f"MATCH (m:{prefix}Meta) SET m.version = 5").consume()
    dba.run(f"MATCH (m:{prefix}Migration) WHERE m.version > 5 DELETE m").consume()
    dba.run("CALL db.awaitIndexes(120)").consume()


def drop_schema(dba: neo4j.Session, prefix: str) -> None:
    schema = schema_of(dba, prefix)
    for kind in ("CONSTRAINT", "INDEX"):
        for row in schema["CONSTRAINTS" if kind == "CONSTRAINT" else "INDEXES"]:
            dba.run(f"DROP {kind} `{row['name']}` IF EXISTS").consume()


def described(dba: neo4j.Session, prefix: str) -> list[dict[str, Any]]:
    """All that Neo4j says of a graph's indexes and constraints, but their names and what follows from those.

    What schema version 5 did not have is left out.
    """
    rows = [row for found in schema_of(dba, prefix).values() for row in found if LATER not in row["name"]]
    kept = [{key: value for key, value in row.items() if key not in NOT_COMPARED} for row in rows]
    return sorted(kept, key=repr)


async def remembers(settings: Settings) -> None:
    async with GraphMemory(settings=settings, embedder=HashEmbedder(DIMENSIONS), model="rules") as memory:
        for question in TOLD:
            found = [memory.text for memory in await memory.recall(question, **ADA)]
            assert found[0] == question


@pytest.fixture
async def remembered(deployed: Callable[..., Connection], dba: neo4j.Session) -> Callable[..., Any]:
    """Fills a graph: two turns with vectors in slot a, and a slot b that is live and has vectors of another size."""

    async def remember(prefix: str, **chosen: Any) -> Settings:
        settings = deployed(label_prefix=prefix, **chosen).settings
        turns = [Turn(f"t{n}", "user", text, datetime(2026, 3, n + 1, tzinfo=UTC)) for n, text in enumerate(TOLD)]
        async with GraphMemory(settings=settings, embedder=HashEmbedder(DIMENSIONS), model="rules") as memory:
            await memory.remember(turns, session_id="s", **ADA)
            await vector_slots.open_slot(memory.connection, "b", "larger", 2 * DIMENSIONS)
        return settings

    return remember


@pytest.mark.full
@pytest.mark.parametrize("index_prefix", ["adk_", "own_"])
async def test_a_graph_of_former_names_gets_its_names_and_still_remembers(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str, remembered: Any, index_prefix: str
) -> None:
    chosen = {"analyzers": ("standard-no-stop-words", "english")}
    settings = await remembered(prefix, **chosen)
    before = described(dba, prefix)
    names = {row["name"] for row in schema_of(dba, prefix)["INDEXES"]}
    age(dba, prefix, index_prefix)
    aged = {row["name"] for row in schema_of(dba, prefix)["INDEXES"]}
    assert not aged & names and described(dba, prefix) == before

    with pytest.raises(errors.SchemaMissing, match=r"(?s)0006_index_names.*adk-graph-memory migrate"):
        await graph.prepare_connection(deployed(**chosen, schema="check"))
    assert {row["name"] for row in schema_of(dba, prefix)["INDEXES"]} == aged

    connection = await graph.prepare_connection(deployed(**chosen))
    schema = schema_of(dba, prefix)
    assert {row["name"] for row in schema["INDEXES"]} == names
    assert {row["state"] for row in schema["INDEXES"]} == {"ONLINE"}
    assert described(dba, prefix) == before
    state = await vector_slots.fetch_schema_state(connection)
    assert (state.version, state.live_slot_name, len(state.slots)) == (migrate.get_schema_version(), "a", 2)
    await remembers(settings)


@pytest.mark.full
async def test_the_printed_script_holds_what_a_graph_of_former_names_needs(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str, remembered: Any
) -> None:
    settings = await remembered(prefix)
    before, names = described(dba, prefix), {row["name"] for row in schema_of(dba, prefix)["INDEXES"]}
    age(dba, prefix)
    connection = deployed()
    script = migrate.make_migration_script(settings, renamings=await migrate.fetch_renamings(connection))
    assert all(f"`{former_name(name, prefix)}` IF EXISTS;" in script for name in names if LATER not in name)
    run_as_cypher_shell(dba, script)
    await graph.prepare_connection(deployed(schema="check"))
    assert ({row["name"] for row in schema_of(dba, prefix)["INDEXES"]}, described(dba, prefix)) == (names, before)
    assert await migrate.fetch_renamings(connection) == []
    await remembers(settings)


@pytest.mark.full
@pytest.mark.parametrize("first", [0, 1])
async def test_two_graphs_that_shared_names_both_get_all_of_their_constraints(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str, remembered: Any, first: int
) -> None:
    prefixes = (prefix, f"Zz{prefix}")
    for one in prefixes:
        await remembered(one)
    full = described(dba, prefixes[1])
    drop_schema(dba, prefixes[1])
    forget_migrations(dba, prefixes[1])
    age(dba, prefix, index_prefix="adk_Zz")
    shared = {row["name"] for row in schema_of(dba, prefix)["INDEXES"]}
    assert shared >= {former_name(name, prefixes[1]) for name in named_by_migrations(prefixes[1]) if LATER not in name}

    for one in (prefixes[first], prefixes[1 - first]):
        await graph.prepare_connection(deployed(label_prefix=one))
    for one in prefixes:
        found = schema_of(dba, one)
        assert {row["name"] for row in found["INDEXES"]} >= named_by_migrations(one)
        assert {row["labelsOrTypes"][0].removeprefix(one) for row in found["CONSTRAINTS"]} == LABELS
        await remembers(deployed(label_prefix=one).settings)
    assert described(dba, prefixes[1]) == full


@pytest.mark.full
async def test_an_index_is_made_that_a_process_dropped_before_it_died(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str, remembered: Any
) -> None:
    settings = await remembered(prefix)
    before = described(dba, prefix)
    age(dba, prefix)
    dba.run(f"DROP CONSTRAINT `{former_name('adk_meta_key', prefix)}`").consume()
    dba.run(f"DROP INDEX `{former_name('adk_memory_text_english', prefix)}`").consume()
    dba.run(f"DROP INDEX `{former_name('adk_memory_vector_a', prefix)}` IF EXISTS").consume()
    await asyncio.gather(*(graph.prepare_connection(deployed()) for _ in range(3)))
    assert described(dba, prefix) == before
    await remembers(settings)


async def test_a_graph_without_a_prefix_needs_nothing(
    deployed: Callable[..., Connection], dba: neo4j.Session, remembered: Any
) -> None:
    await remembered("")
    before = schema_of(dba, "")
    forget_migrations(dba, "")
    await graph.prepare_connection(deployed(label_prefix=""))
    assert [row["id"] for kind in before for row in schema_of(dba, "")[kind]] == [
        row["id"] for kind in before for row in before[kind]
    ]
    assert all(re.fullmatch(r"adk_[a-z_]+", row["name"]) for row in before["INDEXES"])


async def test_somebody_elses_indexes_of_our_labels_stay(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str
) -> None:
    await graph.prepare_connection(deployed())
    age(dba, prefix)
    dba.run(f"CREATE INDEX mine_{prefix}session_key FOR (n:{prefix}Session) ON (n.id)").consume()
    await graph.prepare_connection(deployed())
    names = {row["name"] for row in schema_of(dba, prefix)["INDEXES"]}
    assert names == named_by_migrations(prefix) | {f"mine_{prefix}session_key"}


@pytest.mark.full
@pytest.mark.parametrize("is_fresh", [True, False])
async def test_a_name_that_another_graph_has_is_told_before_anything_is_dropped(
    deployed: Callable[..., Connection], dba: neo4j.Session, prefix: str, is_fresh: bool
) -> None:
    if not is_fresh:
        await graph.prepare_connection(deployed())
        age(dba, prefix)
    name = f"adk_event_memory_key_OF_{prefix}"
    dba.run(f"CREATE CONSTRAINT {name} FOR (n:Other{prefix}) REQUIRE n.key IS UNIQUE").consume()
    before = schema_of(dba, prefix)
    with pytest.raises(errors.IndexNameTaken, match=rf"(?s)'{name}', for label Other{prefix},.*Migrate\s+that\s+graph"):
        await graph.prepare_connection(deployed())
    if not is_fresh:
        assert [row["id"] for row in schema_of(dba, prefix)["INDEXES"]] == [row["id"] for row in before["INDEXES"]]
    dba.run(f"DROP CONSTRAINT {name}").consume()
    await graph.prepare_connection(deployed())
    assert {row["name"] for row in schema_of(dba, prefix)["INDEXES"]} == named_by_migrations(prefix)
