"""The local server for real: it answers, keeps its data, outlives a command if asked to, says what is wrong."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import neo4j
import pytest
from neo4j import exceptions
from typer.testing import CliRunner

from adk_graph_memory import errors
from adk_graph_memory.cli.application import app
from adk_graph_memory.graph.local_neo4j import jars
from adk_graph_memory.graph.local_neo4j.persistent import (
    RunningServer,
    find_running_server,
    start_server,
    stop_server,
)
from adk_graph_memory.graph.local_neo4j.server import (
    LocalNeo4j,
    ensure_password,
    find_process,
    get_log_path,
    list_home_arguments,
)
from adk_graph_memory.runtime import environment, settings

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("local_neo4j")]

KILLED_ROTATION = """
import os, signal
from pathlib import Path
from urllib.parse import urlsplit
from adk_graph_memory.graph.local_neo4j import persistent, server

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

{fault}
persistent.start_server(rotate_password=True)
"""
FAULTS = {
    "before the server takes it": "write = server.write_private_file; "
    "server.write_private_file = lambda *file: (write(*file), kill())",
    "before it is in its file": "Path.replace = lambda file, to: kill() if file.name == 'password.new' else "
    "os.replace(file, to)",
    "before services can read it": "persistent.write_private_file = kill",
}
"""How a rotation is killed: what is patched in its process."""
UP = """
from adk_graph_memory.graph.local_neo4j.persistent import start_server
print(start_server({port}).pid)
"""


def asked(server: LocalNeo4j, query: str) -> list[list[object]]:
    with neo4j.GraphDatabase.driver(server.uri, auth=server.auth) as driver:
        return [record.values() for record in driver.execute_query(query).records]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNeo4j]:
    server = LocalNeo4j(home=tmp_path_factory.mktemp("Żółw & Søn") / "home").start()
    yield server
    server.close()
    assert server.pid is None
    assert server.home.exists()


@pytest.mark.full
def test_it_is_the_version_that_was_asked_for(server: LocalNeo4j) -> None:
    query = "CALL dbms.components() YIELD name, versions, edition WHERE name = 'Neo4j Kernel' RETURN versions, edition"
    assert asked(server, query) == [[[jars.resolve_version()], "community"]]


@pytest.mark.slow
def test_nobody_gets_in_with_the_default_password(server: LocalNeo4j) -> None:
    with (
        neo4j.GraphDatabase.driver(server.uri, auth=("neo4j", "neo4j")) as driver,
        pytest.raises(exceptions.AuthError),
    ):
        driver.verify_connectivity()


@pytest.mark.parametrize(
    "address", ["file:///etc/hostname", "file:///", "http://127.0.0.1:1/", "http://[::1]:1/", "ftp://127.0.0.1:1/"]
)
def test_no_statement_reads_the_machines_files_or_reaches_out(server: LocalNeo4j, address: str) -> None:
    with pytest.raises(exceptions.ClientError, match=r"allow_csv_import_from_file_urls|cypher_ip_blocklist"):
        asked(server, f"LOAD CSV FROM '{address}' AS line RETURN line")


def test_its_store_is_in_use(server: LocalNeo4j) -> None:
    with pytest.raises(errors.StoreInUse, match=f"The store in {server.home} is in use"):
        LocalNeo4j(home=server.home).start()
    assert "Started." in get_log_path(server.home).read_text()


def test_its_port_is_taken(server: LocalNeo4j) -> None:
    with pytest.raises(errors.PortTaken):
        LocalNeo4j(port=server.port).start()


@pytest.mark.slow
def test_data_survive_a_kill_and_a_stop(server: LocalNeo4j) -> None:
    uri, auth, pid = server.uri, server.auth, server.pid
    asked(server, "CREATE (:Survivor {number: 1})")
    server.kill()
    assert server.start().pid not in (None, pid)
    assert asked(server, "MATCH (n:Survivor) RETURN n.number") == [[1]]
    assert (server.uri, server.auth) == (uri, auth)
    server.stop()
    assert server.pid is None
    assert get_log_path(server.home).read_text().rstrip().endswith("Stopped.")
    assert server.home.exists()


@pytest.mark.full
async def test_a_server_that_only_reads() -> None:
    async with (
        LocalNeo4j(conf={"server.databases.default_to_read_only": "true"}) as server,
        neo4j.AsyncGraphDatabase.driver(server.uri, auth=server.auth) as driver,
    ):
        assert (await driver.execute_query("RETURN 1 AS one")).records[0]["one"] == 1
        with pytest.raises(exceptions.ClientError, match="WriteOnReadOnlyAccessDatabase"):
            await driver.execute_query("CREATE ()")
    assert not server.home.exists()


@pytest.mark.slow
def test_two_ups_share_one_server_that_outlives_them() -> None:
    port = LocalNeo4j().port
    commands = [
        subprocess.Popen([sys.executable, "-c", UP.format(port=port)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [command.communicate()[0] for command in commands]
    try:
        running_now = find_running_server()
        assert running_now is not None
        assert told == [f"{running_now.pid}\n"] * 2
        assert running_now.uri == f"bolt://127.0.0.1:{port}"
        assert running_now.password not in repr(running_now)
        assert start_server(port + 1) == running_now

        file = environment.get_connection_file()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert json.loads(file.read_text())["uri"] == running_now.uri
        found = settings.Settings()
        assert (found.uri, found.username) == (running_now.uri, running_now.username)
        with neo4j.GraphDatabase.driver(
            running_now.uri, auth=(found.username, found.password.get_secret_value())
        ) as driver:
            driver.verify_connectivity()
    finally:
        assert stop_server() is True
    assert find_running_server() is None
    assert settings.Settings().uri is None
    assert find_process(list_home_arguments(Path(running_now.home))) is None
    assert get_log_path(Path(running_now.home)).read_text().rstrip().endswith("Stopped.")
    assert ensure_password(Path(running_now.home)) == running_now.password


@pytest.fixture
def local_server() -> Iterator[RunningServer]:
    """What `up` starts, in a home of its own."""
    yield start_server(LocalNeo4j().port)
    stop_server()


def takes(server: RunningServer, password: str) -> bool:
    with neo4j.GraphDatabase.driver(server.uri, auth=("neo4j", password)) as driver:
        return driver.verify_authentication()


def read_connection() -> dict[str, object]:
    return json.loads(environment.get_connection_file().read_text())


def test_up_rotates_the_password(local_server: RunningServer) -> None:
    first_start = Path(local_server.home, "data/dbms/auth.ini")
    before = first_start.read_bytes()
    with (
        neo4j.GraphDatabase.driver(local_server.uri, auth=("neo4j", local_server.password)) as driver,
        driver.session() as held,
    ):
        transaction = held.begin_transaction()
        result = CliRunner().invoke(app, ["up", "--rotate-password"])
        assert result.exit_code == 0 and "Restart the processes" in result.stderr
        assert transaction.run("RETURN 1 AS one").single(strict=True)["one"] == 1
    shown = json.loads(CliRunner().invoke(app, ["status", "--password", "--json"]).stdout)["password"]
    assert shown != local_server.password and shown not in result.output
    assert [takes(local_server, password) for password in (local_server.password, shown)] == [False, True]
    file = Path(local_server.home, "password")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (shown, 0o600)
    assert settings.Settings().password.get_secret_value() == shown
    assert start_server() == find_running_server()
    assert first_start.read_bytes() == before
    assert [found.name for found in Path(local_server.home).glob("password*")] == ["password"]


@pytest.mark.parametrize("is_stopped", [False, pytest.param(True, marks=pytest.mark.full)])
def test_the_next_up_finishes_a_rotation_that_was_killed(local_server: RunningServer, is_stopped: bool) -> None:
    before = local_server.password
    for moment, fault in FAULTS.items():
        killed = subprocess.run([sys.executable, "-c", KILLED_ROTATION.format(fault=fault)])
        assert killed.returncode == -signal.SIGKILL, moment
        if is_stopped:
            stop_server()
        found = start_server(LocalNeo4j().port)
        assert (found.password == before) == (moment == "before the server takes it")
        assert takes(found, found.password), moment
        assert read_connection()["password"] == ensure_password(Path(found.home)) == found.password
        assert [file.name for file in Path(found.home).glob("password*")] == ["password"]
        before = found.password


def test_the_next_up_keeps_the_port_or_names_it(local_server: RunningServer) -> None:
    stop_server()
    port = urlsplit(local_server.uri).port
    assert port
    with socket.create_server(("127.0.0.1", port)), pytest.raises(errors.PortTaken, match=f"Port {port}"):
        start_server()
    assert json.loads(CliRunner().invoke(app, ["up", "--json"]).stdout)["uri"] == local_server.uri


def test_a_password_that_was_changed_by_hand_goes_into_the_file(local_server: RunningServer) -> None:
    statement = f"ALTER CURRENT USER SET PASSWORD FROM '{local_server.password}' TO 'changed by hand'"
    with neo4j.GraphDatabase.driver(local_server.uri, auth=("neo4j", local_server.password)) as driver:
        driver.execute_query(statement, database_="system")
    file = Path(local_server.home, "password")
    with pytest.raises(errors.LocalServerError, match=f"refuses the password in {file}. If you changed it in Neo4j"):
        start_server()
    file.write_text("changed by hand\n")
    assert start_server().password == read_connection()["password"] == "changed by hand"


@pytest.mark.slow
def test_a_server_that_dies_says_why(tmp_path: Path) -> None:
    with pytest.raises(errors.ServerStartFailed, match=r"No declared setting with name: no\.such\.setting") as caught:
        LocalNeo4j(home=tmp_path / "home", conf={"no.such.setting": "1"}).start()
    assert caught.value.code == 1
    assert str(tmp_path / "home" / "logs" / "console.log") in str(caught.value)


@pytest.mark.parametrize("size", ["64k", "1m"])
def test_a_full_disk(tmp_path: Path, size: str) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(tmp_path)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        with pytest.raises(errors.DiskFull, match=f"No space is left in {tmp_path}"):
            LocalNeo4j(home=tmp_path / "home").start(seconds=30)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
