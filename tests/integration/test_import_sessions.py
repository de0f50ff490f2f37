"""Sessions of ADK's own services come over with their ids, states and times, once, and after a kill."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from google.adk.sessions import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from tests.support.import_sources import (
    SCRIPT,
    make_event,
    talk,
    write_database_sessions,
    write_sqlite_memory,
    write_sqlite_sessions,
)

from adk_graph_memory import Neo4jSessionService, errors
from adk_graph_memory.adk.importing import databases
from adk_graph_memory.adk.importing.databases import SessionTables, SqlDatabase, SqliteFile
from adk_graph_memory.adk.importing.importer import Importer, ImportOptions, import_source
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.records.reports import ImportReceipt
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder

EVENT_COUNT = sum(map(len, SCRIPT.values()))


@pytest.fixture
async def memory(neo4j_server) -> AsyncIterator[GraphMemory]:
    async with GraphMemory(settings=neo4j_server.settings(label_prefix="TestHash"), embedder=HashEmbedder()) as memory:
        yield memory


@pytest.fixture
async def sessions(neo4j_server) -> AsyncIterator[Neo4jSessionService]:
    async with Neo4jSessionService(settings=neo4j_server.settings(label_prefix="TestHash")) as sessions:
        yield sessions


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "PAGE_SIZE", 2)


def sqlite_options(**more: Any) -> ImportOptions:
    return ImportOptions("adk-sqlite", **more)


async def read_graph(memory: GraphMemory, *app_names: str) -> list[Any]:
    """All that the graph holds of the apps, with the ids of nodes and relationships."""
    scopes = [Scope(app, user).key for app in app_names for user in {user for user, _ in SCRIPT}]
    result = await memory.connection.run_cypher(
        "MATCH (n) WHERE n.app_name IN $apps OR n.scope IN $scopes OPTIONAL MATCH (n)-[r]->(m) "
        "RETURN elementId(n) AS id, labels(n) AS labels, properties(n) AS properties, "
        "collect([type(r), elementId(r), elementId(m)]) AS edges ORDER BY id",
        {"apps": list(app_names), "scopes": scopes},
    )
    rows = [dict(row) | {"edges": sorted(row["edges"], key=str)} for row in result]
    for row in rows:
        row["properties"].pop("lease", None)  # of whoever looked last whether a request is pending
    return rows


async def fetch_all(service: Any, app_name: str) -> list[Session]:
    listed = await service.list_sessions(app_name=app_name)
    keys = sorted((one.user_id, one.id) for one in listed.sessions)
    return [await service.get_session(app_name=app_name, user_id=user, session_id=id) for user, id in keys]


def plain(sessions: list[Session]) -> list[dict[str, Any]]:
    """Sessions for comparison; every service has a marker of its own on them."""
    return [session.model_dump(mode="json", exclude_none=True) for session in sessions]


@pytest.mark.slow
async def test_sqlite_sessions_come_over_as_they_are(memory, sessions, app_name, tmp_path, small_pages):
    """Two apps, users and ids with spaces, accents and colons, all levels of state, and events of the same time."""
    apps, path = (app_name, f"{app_name} é: 2"), tmp_path / "session.db"
    await write_sqlite_sessions(path, *apps)
    receipt = await import_source(memory, str(path), sqlite_options())
    assert (receipt.sessions, receipt.events) == ({"new": 8, "read": 8}, {"new": 12, "read": 12})
    assert (receipt.skipped, receipt.problems, receipt.waiting_turns) == ({}, (), 0)
    source = SqliteSessionService(str(path))
    for app in apps:
        theirs, ours = await fetch_all(source, app), await fetch_all(sessions, app)
        assert plain(ours) == plain(theirs)
        assert len(ours) == len(SCRIPT)
        assert ours[0].state["app:last"] == "I sell honey."
        assert ours[0].state["user:last"] == "I moved to Porto."
    await source.close()


@pytest.mark.slow
async def test_the_times_of_creation_come_over(memory, app_name, tmp_path):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    with closing(sqlite3.connect(path)) as database:
        wanted = sorted(database.execute("SELECT create_time, update_time FROM sessions").fetchall())
    await import_source(memory, str(path), sqlite_options())
    nodes = [row["properties"] for row in await read_graph(memory, app_name) if "TestHashSession" in row["labels"]]
    assert sorted((node["create_time"], node["last_update_time"]) for node in nodes) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("remembers", [False, True])
async def test_a_second_import_changes_nothing(memory, app_name, tmp_path, small_pages, remembers):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    first = await import_source(memory, str(path), sqlite_options(remembers=remembers))
    assert first.waiting_turns == (EVENT_COUNT if remembers else 0)
    before = await read_graph(memory, app_name)
    second = await import_source(memory, str(path), sqlite_options(remembers=remembers))
    assert await read_graph(memory, app_name) == before
    assert (second.sessions, second.events) == ({"known": 4, "read": 4}, {"known": EVENT_COUNT, "read": EVENT_COUNT})
    assert (second.state_keys, second.waiting_turns) == (0, first.waiting_turns)


async def test_what_is_queued_is_read_later_and_nothing_is_queued_unasked(memory, app_name, tmp_path):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    await import_source(memory, str(path), sqlite_options())
    assert await memory.resume(app_name=app_name) == []
    await import_source(memory, str(path), sqlite_options(remembers=True))
    reports = await memory.resume(app_name=app_name)
    assert sum(report.turns for report in reports) == EVENT_COUNT
    assert (await import_source(memory, str(path), sqlite_options(remembers=True))).waiting_turns == 0
    [best, *_] = await memory.recall("What is Rex afraid of?", app_name=app_name, user_id="ana maría")
    assert "thunder" in best.text


class Killed(Exception):
    pass


@dataclass(frozen=True, slots=True)
class DyingSource(SessionTables):
    """A source that is killed before it yields one more page."""

    pages_left: list[int] | None = None

    async def iterate_event_pages(self, session):
        async for page in SessionTables.iterate_event_pages(self, session):
            assert self.pages_left is not None
            if not self.pages_left[0]:
                raise Killed
            self.pages_left[0] -= 1
            yield page


def without_keys(rows: list[Any], app_name: str) -> list[Any]:
    """What the graph holds, without what differs from import to import."""
    dropped = {"uid", "session_uid", "scope", "memory_id", "lock"}
    nodes = [
        (sorted(row["labels"]), {k: v for k, v in row["properties"].items() if k not in dropped}, len(row["edges"]))
        for row in rows
    ]
    return sorted(json.dumps(node, default=str, sort_keys=True).replace(app_name, "APP") for node in nodes)


RENAMES = (
    "UPDATE sessions SET app_name = ?",
    "UPDATE events SET app_name = ?",
    "UPDATE app_states SET app_name = ?",
    "UPDATE user_states SET app_name = ?",
)


@pytest.mark.parametrize("page_count", range(4))
async def test_a_killed_import_goes_on(memory, app_name, tmp_path, small_pages, page_count):
    """Killed after some pages, also in the middle of a session, it comes to what an undisturbed one comes to."""
    whole, killed = f"{app_name}-whole", f"{app_name}-dead!"
    await write_sqlite_sessions(tmp_path / f"{whole}.db", whole)
    shutil.copy(tmp_path / f"{whole}.db", tmp_path / f"{killed}.db")
    with closing(sqlite3.connect(tmp_path / f"{killed}.db")) as database, database:
        for statement in RENAMES:
            database.execute(statement, (killed,))
    await import_source(memory, str(tmp_path / f"{whole}.db"), sqlite_options())
    file = await SqliteFile(tmp_path / f"{killed}.db", "").open()
    with pytest.raises(Killed):
        await Importer(memory, sqlite_options()).import_sessions(DyingSource(file, pages_left=[page_count]))
    await file.close()
    receipt = await import_source(memory, str(tmp_path / f"{killed}.db"), sqlite_options())
    assert receipt.events.get("known", 0) == [0, 1, 3, 4][page_count]
    assert without_keys(await read_graph(memory, killed), killed) == without_keys(
        await read_graph(memory, whole), whole
    )


@pytest.mark.slow
async def test_what_was_said_since_comes_too_and_what_the_graph_has_stays(memory, sessions, app_name, tmp_path):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    await import_source(memory, str(path), sqlite_options())
    ours = await sessions.get_session(app_name=app_name, user_id="bea:2", session_id="empty")
    await sessions.append_event(ours, make_event("new", "Here.", ours.last_update_time + 9, {"app:theme": "light"}))
    source = SqliteSessionService(str(path))
    theirs = await source.get_session(app_name=app_name, user_id="ana maría", session_id="día/2")
    event = make_event("more", "And I like it.", theirs.last_update_time + 5, {"turn": 7, "app:new": 1})
    await source.append_event(theirs, event)
    await source.close()
    receipt = await import_source(memory, str(path), sqlite_options())
    assert (receipt.sessions["extended"], receipt.events["new"], receipt.state_keys) == (1, 1, 1)
    extended = await sessions.get_session(app_name=app_name, user_id="ana maría", session_id="día/2")
    assert [one.id for one in extended.events][-1] == "more"
    assert (extended.state["turn"], extended.state["app:new"]) == (7, 1)
    assert extended.state["app:theme"] == "light"
    kept = await sessions.get_session(app_name=app_name, user_id="bea:2", session_id="empty")
    assert [one.id for one in kept.events] == ["new"]


async def test_another_session_under_the_same_id_is_left_alone(memory, sessions, app_name, tmp_path):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    ours = await sessions.create_session(app_name=app_name, user_id="bea:2", session_id="monday: the 1st")
    await sessions.append_event(ours, make_event("mine", "Another talk.", ours.last_update_time))
    receipt = await import_source(memory, str(path), sqlite_options())
    assert receipt.skipped == {"in conflict with the graph": 1}
    assert receipt.has_problems
    assert "monday: the 1st of user bea:2" in receipt.problems[0].place
    kept = await sessions.get_session(app_name=app_name, user_id="bea:2", session_id="monday: the 1st")
    assert [one.id for one in kept.events] == ["mine"]


@pytest.mark.slow
async def test_an_id_with_spaces_around_it_loses_them(memory, sessions, app_name, tmp_path):
    """As our own service stores it; a database that was migrated may hold such ids."""
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE sessions SET id = ' día/2 ' WHERE id = 'día/2'")
        database.execute("UPDATE events SET session_id = ' día/2 ' WHERE session_id = 'día/2'")
    await import_source(memory, str(path), sqlite_options())
    ours = await sessions.get_session(app_name=app_name, user_id="ana maría", session_id="día/2")
    assert [one.id for one in ours.events] == ["e 0 · día/2"]
    assert (await import_source(memory, str(path), sqlite_options())).sessions == {"known": 4, "read": 4}


@pytest.mark.slow
async def test_only_one_app_or_user_on_request(memory, sessions, app_name, tmp_path):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name, f"{app_name}-2")
    receipt = await import_source(memory, str(path), sqlite_options(app_name=app_name, user_id="bea:2"))
    assert (receipt.sessions, receipt.skipped) == ({"new": 2, "read": 2}, {"of another app or user": 6})
    assert not receipt.has_problems
    assert {one.user_id for one in await fetch_all(sessions, app_name)} == {"bea:2"}
    assert await fetch_all(sessions, f"{app_name}-2") == []
    assert await sessions.get_user_state(app_name=app_name, user_id="ana maría") == {}


async def test_rows_that_cannot_be_read_are_named_and_hold_up_nothing(memory, sessions, app_name, tmp_path):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE sessions SET state = '{broken' WHERE id = 'empty'")
        database.execute("UPDATE events SET event_data = '[]' WHERE id = 'e 0 · día/2'")
        database.execute(
            "UPDATE events SET event_data = CAST(x'7bff' AS TEXT) WHERE user_id = 'bea:2' AND id LIKE 'e 0%'"
        )
        database.execute("UPDATE events SET event_data = '{\"author\": 1}' WHERE user_id = 'bea:2' AND id LIKE 'e 1%'")
    receipt = await import_source(memory, str(path), sqlite_options())
    assert receipt.skipped == {"unreadable": 4}
    places = {row.place.partition("session.db, ")[2]: row.reason for row in receipt.problems}
    assert places.keys() == {
        f"session empty of user bea:2 of {app_name}",
        f"session día/2 of user ana maría of {app_name}, event e 0 · día/2",
        f"session monday: the 1st of user bea:2 of {app_name}, event e 0 · monday: the 1st",
        f"session monday: the 1st of user bea:2 of {app_name}, event e 1 · monday: the 1st",
    }
    assert [len(one.events) for one in await fetch_all(sessions, app_name)] == [0, 3, 0]
    again = await import_source(memory, str(path), sqlite_options())
    assert (again.skipped, again.sessions["known"]) == ({"unreadable": 4}, 3)


@pytest.mark.slow
async def test_a_dry_run_only_reads(app_name, tmp_path):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    before = path.read_bytes()
    receipt = await import_source(None, str(path), sqlite_options(remembers=True))
    assert (receipt.is_dry_run, receipt.sessions, receipt.events) == (True, {"read": 4}, {"read": EVENT_COUNT})
    assert path.read_bytes() == before


@pytest.mark.slow
async def test_a_database_of_the_other_service_comes_over(memory, sessions, app_name, tmp_path, small_pages):
    talks = await write_sqlite_sessions(tmp_path / "session.db", app_name)
    write_database_sessions(tmp_path / "sessions.db", talks)
    url = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
    receipt = await import_source(memory, url, ImportOptions("adk-database"))
    assert (receipt.sessions["new"], receipt.events["new"], receipt.skipped) == (4, EVENT_COUNT, {})
    ours = await fetch_all(sessions, app_name)
    by_key = {(one.user_id, one.id): one for one in talks}
    assert [one.model_dump(include={"events"}, mode="json") for one in ours] == [
        by_key[one.user_id, one.id].model_dump(include={"events"}, mode="json") for one in ours
    ]
    assert ours[0].last_update_time == pytest.approx(by_key[ours[0].user_id, ours[0].id].last_update_time, abs=1e-5)


@pytest.mark.slow
async def test_adks_own_database_service_is_read(memory, sessions, app_name, tmp_path):
    pytest.importorskip("sqlalchemy", reason="DatabaseSessionService needs SQLAlchemy")
    from google.adk.sessions import DatabaseSessionService

    url = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
    theirs = DatabaseSessionService(url)
    await talk(theirs, [app_name])
    wanted = plain(await fetch_all(theirs, app_name))
    await theirs.close()
    await import_source(memory, url, ImportOptions("adk-database"))
    assert plain(await fetch_all(sessions, app_name)) == wanted


async def test_sqlalchemy_reads_what_sqlite_reads(app_name, tmp_path, small_pages):
    pytest.importorskip("sqlalchemy", reason="other databases than SQLite need SQLAlchemy")
    path = tmp_path / "sessions.db"
    write_database_sessions(path, await write_sqlite_sessions(tmp_path / "session.db", app_name))
    file, database = await SqliteFile(path, "").open(), SqlDatabase(f"sqlite+aiosqlite:///{path}")
    read = []
    for one in (SessionTables(file, has_version=True), SessionTables(database, has_version=True)):
        await one.check_schema()
        found = [session async for session in one.iterate_sessions()]
        pages = [[page async for page in one.iterate_event_pages(session)] for session in found]
        read.append(str([found, pages]).replace(one.database.name, "NAME"))
        await one.database.close()
    assert read[0] == read[1]


# -- what cannot be imported ------------------------------------------------------------------------------------


async def refusal(location: Any, kind: str = "adk-sqlite") -> errors.GraphMemoryError:
    with pytest.raises(errors.GraphMemoryError) as caught:
        await import_source(None, str(location), ImportOptions(kind))
    return caught.value


async def test_a_file_that_is_not_there_is_not_made(tmp_path):
    error = await refusal(tmp_path / "none.db")
    assert isinstance(error, errors.NotFound)
    assert "none.db" in str(error)
    assert list(tmp_path.iterdir()) == []


async def test_what_is_no_such_file_says_what_it_is(app_name, tmp_path):
    text, empty, memory, old = (tmp_path / name for name in ("text.db", "empty.db", "memory.db", "old.db"))
    text.write_text("sessions: none", encoding="utf-8")
    empty.touch()
    await write_sqlite_memory(memory, app_name)
    with closing(sqlite3.connect(old)) as database:
        database.execute("CREATE TABLE events (id, actions)")
    assert "it is no SQLite database (it starts with b'sessions: none'). Expected a file of ADK's Sqlite" in str(
        await refusal(text)
    )
    assert "no table app_states (its tables: none)" in str(await refusal(empty))
    assert "no table app_states (its tables: adk_memory_metadata, memory_events" in str(await refusal(memory))
    assert "adk migrate session" in str(await refusal(old))


async def test_either_services_file_points_to_the_other(app_name, tmp_path):
    talks = await write_sqlite_sessions(tmp_path / "session.db", app_name)
    write_database_sessions(tmp_path / "sessions.db", talks)
    assert "try --from adk-database" in str(await refusal(tmp_path / "sessions.db"))
    assert "try --from adk-sqlite" in str(await refusal(tmp_path / "session.db", "adk-database"))


async def test_another_schema_is_refused(app_name, tmp_path):
    path = tmp_path / "sessions.db"
    write_database_sessions(path, await write_sqlite_sessions(tmp_path / "session.db", app_name))
    for version in ("0", "2"):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE adk_internal_metadata SET value = ?", (version,))
        assert f"has the version {version}, and this release knows 1" in str(await refusal(path, "adk-database"))
    with closing(sqlite3.connect(tmp_path / "session.db")) as database, database:
        database.execute("ALTER TABLE events RENAME COLUMN event_data TO event_json")
    assert "the table events lacks event_data" in str(await refusal(tmp_path / "session.db"))


async def test_a_file_that_is_locked_says_so(app_name, tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "LOCK_WAIT", 0.0)
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "is locked by another process" in str(await refusal(path))
        other.execute("COMMIT")
    assert (await import_source(None, str(path), sqlite_options())).sessions == {"read": 4}


async def test_without_sqlalchemy_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy.engine", None)
    error = await refusal("postgresql+asyncpg://ana:secret@localhost/adk", "adk-database")
    assert 'pip install "google-adk[db]"' in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mssql+aioodbc://ana:secret@localhost/adk", "it is of mssql"),
        ("postgresql+psycopg2://ana:secret@localhost/adk", "postgresql+asyncpg://"),
        ("postgresql+nodriver://ana:secret@localhost/adk", "postgresql+asyncpg://"),
        ("://secret", "no SQLAlchemy URL"),
    ],
)
async def test_a_url_that_cannot_be_used_is_told_without_its_password(url, problem):
    pytest.importorskip("sqlalchemy", reason="other databases than SQLite need SQLAlchemy")
    error = await refusal(url, "adk-database")
    assert problem in str(error)
    assert "secret" not in str(error)


# -- the command ------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_command_imports_and_gives_a_receipt(command, app_name, tmp_path):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    run = partial(command, "import", "--from", "adk-sqlite", str(path))
    assert "4 read" in (await run("--dry-run")).stdout
    first = await run()
    assert (first.exit_code, [line.split() for line in first.stdout.splitlines()]) == (
        0,
        [["sessions", "4", "read:", "4", "new"], ["events", "6", "read:", "6", "new"], ["state", "6", "keys", "added"]],
    )
    assert "--remember" in first.stderr
    told = json.loads((await run("--remember", "--json")).stdout)
    assert (told["sessions"], told["waiting_turns"]) == ({"known": 4, "read": 4}, EVENT_COUNT)


async def test_the_command_names_what_it_left_out(command, app_name, tmp_path):
    path = tmp_path / "session.db"
    await write_sqlite_sessions(path, app_name)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE events SET event_data = 'x' WHERE id = 'e 0 · día/2'")
    result = await command("import", "--from", "adk-sqlite", str(path))
    assert result.exit_code == 1
    assert 'event e 0 · día/2: its "event_data" is no JSON' in result.stderr
    assert "left out  1 unreadable" in result.stdout
    wrong = await command("import", "--from", "mem0", "--remember", str(path))
    assert wrong.exit_code == 2


def test_a_receipt_of_nothing_has_no_problems():
    receipt = ImportReceipt("mem0", False, {}, {}, {}, 0, 0, {}, ())
    assert not receipt.has_problems
