"""Run a Neo4j server for as long as tests or a notebook need it: its process, home folder and log."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import neo4j
from neo4j import exceptions

from adk_graph_memory import errors
from adk_graph_memory.graph.local_neo4j import jars
from adk_graph_memory.graph.local_neo4j.jars import Java
from adk_graph_memory.graph.sync_driver import open_session
from adk_graph_memory.records.scopes import check_flags
from adk_graph_memory.runtime.private_files import write_private_file

# Ask Linux for SIGTERM when the parent ends, exit if it has ended already, then exec the command. This is a separate
# program because preexec_fn, the other way to run code in the child, can deadlock in a process with threads.
LAUNCHER_CODE = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 15)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(143)
os.execv(sys.argv[2], sys.argv[2:])
"""


def check_platform() -> None:
    """Refuse Windows, where a server could be neither tied to its parent process nor stopped gently.

    Raises:
        errors.UnsupportedPlatform: this is Windows.
    """
    if sys.platform == "win32":
        raise errors.UnsupportedPlatform(platform="Windows")


class ServerProcess:
    """A command that runs in its own session, with its output in a file.

    Linux regards the thread that forked a process as its parent, so a thread of its own forks it and waits for its end.

    Args:
        command: The program's absolute path and its arguments.
        log: The file for its output, which is overwritten.
        outlive: Leave it running when this process ends; else it ends too (on Linux, however this process ends).
    """

    def __init__(self, command: Sequence[str], log: Path, *, outlive: bool = False) -> None:
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER_CODE, str(os.getpid())]
        self._command = list(command) if outlive else [*launcher, *command]
        self._log = log
        self._pid: Future[int] = Future()
        self._exit_code: Future[int] = Future()
        threading.Thread(target=self._spawn_and_wait, name="local-neo4j", daemon=True).start()
        self.pid = self._pid.result()

    def _spawn_and_wait(self) -> None:
        try:
            with self._log.open("wb") as log:
                popen = subprocess.Popen(
                    self._command,
                    cwd=self._log.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._pid.set_exception(error)
            return
        self._pid.set_result(popen.pid)
        self._exit_code.set_result(popen.wait())

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._exit_code.result() if self._exit_code.done() else None

    def signal_and_wait(self, signal: int, seconds: float) -> int:
        """Send a signal and wait for the exit code.

        Raises:
            TimeoutError: it still runs.
        """
        if not self._exit_code.done():
            with suppress(ProcessLookupError):  # it may have ended just now
                os.kill(self.pid, signal)
        return self._exit_code.result(seconds)


def find_process(arguments: Sequence[str]) -> int | None:
    """Find this user's process whose command line ends with these arguments; return its id.

    Raises:
        errors.UnsupportedPlatform: this is Windows.
    """
    check_platform()
    ending = " ".join(arguments)
    return next((pid for pid, line in _list_command_lines() if line.endswith(ending)), None)


def _list_command_lines() -> Iterator[tuple[int, str]]:
    if not Path("/proc/self/cmdline").exists():
        ps = subprocess.run(["ps", "-xww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
        for line in ps.stdout.splitlines():
            pid, _, command = line.strip().partition(" ")
            yield int(pid), command.strip()
        return
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == os.getuid():
                line = (folder / "cmdline").read_text("utf-8", errors="replace")
                yield int(folder.name), line.rstrip("\0").replace("\0", " ")
        except OSError:
            continue


JVM_FLAGS = (
    "-XX:+UseG1GC",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:+TrustFinalNonStaticFields",
    "-XX:+DisableExplicitGC",
    "-Djdk.nio.maxCachedBufferSize=1024",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.leakDetection.level=DISABLED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--enable-native-access=ALL-UNNAMED",
    "-Dlog4j2.disable.jmx=true",
    "-Dlog4j.layout.jsonTemplate.maxStringLength=32768",
    "-Dfile.encoding=UTF-8",
)

# Neo4j misreads a neo4j.conf that is not ASCII, so no paths stand here; it finds its folders by --home-dir.
BASE_SETTINGS = {
    "server.default_listen_address": "127.0.0.1",
    "server.bolt.listen_address": "127.0.0.1:{port}",
    "server.bolt.advertised_address": "127.0.0.1:{port}",
    "server.http.enabled": "false",
    "server.https.enabled": "false",
    "dbms.usage_report.enabled": "false",
    "server.memory.pagecache.size": "{page_cache}",
    "db.tx_log.preallocate": "false",
    "db.tx_log.rotation.size": "1m",
    "db.tx_log.rotation.retention_policy": "2 files",
}

SECURITY_SETTINGS = {
    "dbms.security.allow_csv_import_from_file_urls": "false",
    "internal.dbms.cypher_ip_blocklist": "0.0.0.0/0,::/0",
    "dbms.security.procedures.allowlist": "db.*,dbms.*",
}
"""Statements cannot read local files or network addresses (LOAD CSV), nor call procedures of plug-ins."""

# Without a quiet period Bolt's listener closes at once, so that a stop takes 0.3 s instead of 10.
SETTINGS_5 = {"internal.dbms.bolt.netty_server_shutdown_quiet_period": "0"}
SETTINGS_2026 = {
    "internal.dbms.bolt.netty_server_shutdown_quiet_period_duration": "0s",
    "db.query.default_language": "CYPHER_25",
    "server.fleet_discovery.enabled": "false",
}

EXIT_STORE_IN_USE = 2
MIN_DISK_SPACE = "50 MB"
ROTATION_FILE = "password.new"
"""The file of the next password, beside ``password``, while a rotation is under way."""


def get_log_path(home: Path) -> Path:
    """The path of the latest server's console output."""
    return home / "logs" / "console.log"


def read_log_tail(home: Path) -> str:
    """The last 3,000 characters of the log."""
    return get_log_path(home).read_text("utf-8", errors="replace")[-3_000:]


def is_store_locked(home: Path) -> bool:
    """Whether a server holds the store's lock, tested as Neo4j itself does."""
    import fcntl  # Windows lacks it; filelock's locks do not conflict with Java's

    lock = home / "data" / "databases" / "store_lock"
    if not lock.exists():
        return False
    with lock.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return True
    return False


def is_disk_full(home: Path) -> bool:
    """Whether less than 1 MiB is free; a server may take minutes to report a full disk, or fail to log it."""
    return shutil.disk_usage(home).free < 2**20


def ensure_password(home: Path) -> str:
    """The password of user neo4j in this home; the first call creates it, for the server to use at its first start."""
    file = home / "password"
    if file.exists():
        return file.read_text("utf-8").strip()  # whoever writes it by hand may end the line
    password = secrets.token_urlsafe(24)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "data" / "dbms").mkdir(parents=True, exist_ok=True)
    write_private_file(home / "data" / "dbms" / "auth.ini", hash_password(password))
    write_private_file(file, password)
    return password


def rotate_password(home: Path, uri: str) -> None:
    """Give user neo4j of the running server a new password; whenever this is killed, a file has the valid one.

    Raises:
        errors.LocalServerError: as :func:`settle_password` does.
    """
    settle_password(home, uri)
    old, new, new_file = ensure_password(home), secrets.token_urlsafe(24), home / ROTATION_FILE
    write_private_file(new_file, new)
    with _open_session(uri, old, database="system") as session:
        session.run("ALTER CURRENT USER SET PASSWORD FROM $old TO $new", old=old, new=new).consume()
    new_file.replace(home / "password")


def settle_password(home: Path, uri: str) -> None:
    """Log in to the running server, and finish a rotation that was killed: keep the password that the server takes.

    Raises:
        errors.LocalServerError: it takes neither.
    """
    file, new_file = home / "password", home / ROTATION_FILE
    for unfinished in home.glob(f"{ROTATION_FILE}.*"):  # nobody was told this one
        unfinished.unlink(missing_ok=True)
    if _takes_password(uri, ensure_password(home)):
        new_file.unlink(missing_ok=True)
    elif new_file.exists() and _takes_password(uri, new_file.read_text("utf-8")):
        new_file.replace(file)
    else:
        reason = f"it refuses the password in {file}. If you changed it in Neo4j, write the new one into that file"
        raise errors.LocalServerError(reason=reason)


def _takes_password(uri: str, password: str) -> bool:
    try:
        with _open_session(uri, password, database="neo4j") as session:
            session.run("RETURN 1").consume()
    except exceptions.AuthError:
        return False
    return True


@contextmanager
def _open_session(uri: str, password: str, *, database: str) -> Iterator[neo4j.Session]:
    with (
        neo4j.GraphDatabase.driver(uri, auth=("neo4j", password)) as driver,
        open_session(driver, database=database) as session,
    ):
        yield session


def hash_password(password: str) -> str:
    """Hash a password as `neo4j-admin dbms set-initial-password` does, so that no server has a default password.

    Source: org.neo4j.server.security.SystemGraphCredential, in neo4j-security. If that changes, every login in
    tests/integration/test_local_neo4j.py fails.
    """
    salt = secrets.token_bytes(32)
    digest = salt + password.encode()
    for _ in range(1024):
        digest = hashlib.sha256(digest).digest()
    return f"neo4j:SHA-256,{digest.hex()},{salt.hex()},1024:\n"


def write_configuration(home: Path, *, version: str, port: int, page_cache: str, conf: Mapping[str, str]) -> None:
    """Create the folders and overwrite conf/neo4j.conf; ``conf`` overrides the default settings.

    Raises:
        errors.DiskFull: there is no space for these files.
    """
    defaults = {
        name: value.format(port=port, page_cache=page_cache)
        for name, value in (BASE_SETTINGS | SECURITY_SETTINGS).items()
    }
    settings = defaults | (SETTINGS_5 if jars.is_line_5(version) else SETTINGS_2026) | dict(conf)
    with jars.translate_disk_full(home, needed=MIN_DISK_SPACE):
        ensure_password(home)
        for folder in ("conf", "logs", "import", "plugins", "run"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (home / "conf" / "neo4j.conf").write_text(text, "utf-8")


def read_port(home: Path) -> int | None:
    """The Bolt port of the server that last ran in this home; None if none did."""
    with suppress(FileNotFoundError):
        lines = (home / "conf" / "neo4j.conf").read_text("utf-8").splitlines()
        ports = (line.rpartition(":")[2] for line in lines if line.startswith("server.bolt.listen_address="))
        return next((int(port) for port in ports if port.isdecimal()), None)
    return None


def prepare_command(
    home: Path, *, version: str, java: Java, classpath: Sequence[Path], heap: str, jvm_flags: Sequence[str]
) -> list[str]:
    """Write conf/java.args and prepare the server's command line, which reads it."""
    flags = [
        *JVM_FLAGS,
        *jvm_flags,
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-classpath",
        f'"{os.pathsep.join(map(str, classpath))}"',
    ]
    if java.version >= 24:
        flags.insert(0, "--sun-misc-unsafe-memory-access=allow")
    with jars.translate_disk_full(home, needed=MIN_DISK_SPACE):
        (home / "conf" / "java.args").write_text("\n".join(flags), "utf-8")
    main_class = "CommunityEntryPoint" if jars.is_line_5(version) else "Neo4jCommunity"
    return [str(java.path), f"@{home}/conf/java.args", f"org.neo4j.server.{main_class}", *list_home_arguments(home)]


def list_home_arguments(home: Path) -> list[str]:
    """List the last arguments of the command line, by which the process of this home is found."""
    return [f"--home-dir={home}", f"--config-dir={home}/conf", "--console-mode"]


def diagnose_failure(home: Path, port: int, code: int) -> errors.LocalServerError:
    """Make the error for a server that ended during its start, from its exit code and its log."""
    tail = read_log_tail(home)
    if is_disk_full(home) or "Disk quota exceeded" in tail:
        return errors.DiskFull(home=home, needed=MIN_DISK_SPACE)
    if "BindException" in tail or "Address already in use" in tail:
        return errors.PortTaken(port=port)
    if code == EXIT_STORE_IN_USE or "FileLockException" in tail:
        return errors.StoreInUse(home=home)
    return errors.ServerStartFailed(code=code, log=get_log_path(home), tail=tail)


QUICK_JVM_FLAGS = ("-XX:TieredStopAtLevel=1",)
READ_ONLY_SETTINGS = {"server.databases.default_to_read_only", "server.databases.read_only"}


class LocalNeo4j:
    """A real Neo4j Community server, run from its jars, for tests and notebooks.

    Use it as ``async with LocalNeo4j() as server``, or call :meth:`start` and :meth:`close`, which block. After
    :meth:`stop` or :meth:`kill`, another :meth:`start` reuses the port, password and data. On Linux, the server ends
    with the process that started it, however that process ends.

    Args:
        home: The folder for its store; if None, a temporary folder that :meth:`close` removes.
        port: The Bolt port on 127.0.0.1; if None, a free one.
        version: "2026", "5.26" or a full version; defaults to ADK_GRAPH_MEMORY_NEO4J, else "2026".
        heap: The size of the JVM's heap, in the JVM's notation: "512m".
        page_cache: The size of Neo4j's page cache, in Neo4j's notation; ideally as large as the store.
        conf: Further settings for neo4j.conf; they override the defaults.
        jvm_flags: Further flags for the JVM. By default, it compiles only what a server that lives for minutes needs:
            starting and planning the first statements take two thirds of the CPU time, heavy statements take more. Use
            ``()`` for a server that lives longer or is benchmarked.
        progress: Called with the fetched and total bytes while jars are fetched.

    Attributes:
        uri: The address, ``bolt://127.0.0.1:PORT``.
        auth: User and password, as a driver takes them.
    """

    def __init__(
        self,
        *,
        home: Path | str | None = None,
        port: int | None = None,
        version: str | None = None,
        heap: str = "512m",
        page_cache: str = "64m",
        conf: Mapping[str, str] | None = None,
        jvm_flags: Sequence[str] = QUICK_JVM_FLAGS,
        progress: jars.ProgressCallback | None = None,
    ) -> None:
        self.version = jars.resolve_version(version)
        self._is_temporary = home is None
        self.home = Path(home or Path(tempfile.gettempdir(), f"neo4j-{secrets.token_hex(8)}")).absolute()
        self.port = port or _find_free_port()
        self.uri = f"bolt://127.0.0.1:{self.port}"
        self._heap, self._page_cache, self._conf = heap, page_cache, dict(conf or {})
        self._jvm_flags = tuple(jvm_flags)
        self._progress = progress
        self._lock = threading.Lock()
        self._process: ServerProcess | None = None

    @property
    def auth(self) -> tuple[str, str]:
        return "neo4j", ensure_password(self.home)

    @property
    def pid(self) -> int | None:
        """The id of the process; None while the server does not run."""
        return self._process.pid if self._process and self._process.exit_code is None else None

    def start(self, *, seconds: float = 180.0, outlive: bool = False) -> Self:
        """Start the server and wait until it answers.

        Args:
            seconds: How long to wait.
            outlive: Leave it running when this process ends.

        Raises:
            errors.LocalServerError: it did not start; the subclass and its message say what to do.
        """
        check_flags(outlive=outlive)
        check_platform()
        with self._lock:
            if self.pid:
                return self
            if not _is_port_free(self.port):
                raise errors.PortTaken(port=self.port)
            if is_store_locked(self.home):
                raise errors.StoreInUse(home=self.home)
            runtime = jars.find_java(self.version)
            classpath = jars.fetch_jars(jars.load_locked_jars(self.version), self._progress)
            if not outlive:
                atexit.register(self.close)
            confs = [self._conf]
            has_store = (self.home / "data" / "databases" / "neo4j").exists()
            if READ_ONLY_SETTINGS & self._conf.keys() and not has_store:
                confs.insert(0, {})  # a read-only server cannot create its store, so one without these settings does
            for conf in confs:
                self._end_process(signal.SIGTERM)
                self._launch_process(runtime, classpath, conf, seconds, outlive)
        return self

    def stop(self) -> None:
        """Shut the server down with SIGTERM; its data stay."""
        with self._lock:
            self._end_process(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the server with SIGKILL, like a crash; committed data stay."""
        with self._lock:
            self._end_process(signal.SIGKILL)

    def close(self) -> None:
        """Stop the server and remove its home if that is temporary."""
        self.stop()
        atexit.unregister(self.close)
        if self._is_temporary:
            shutil.rmtree(self.home, ignore_errors=True)

    def _launch_process(
        self, runtime: jars.Java, classpath: list[Path], conf: Mapping[str, str], seconds: float, outlive: bool
    ) -> None:
        write_configuration(self.home, version=self.version, port=self.port, page_cache=self._page_cache, conf=conf)
        command = prepare_command(
            self.home,
            version=self.version,
            java=runtime,
            classpath=classpath,
            heap=self._heap,
            jvm_flags=self._jvm_flags,
        )
        self._process = ServerProcess(command, get_log_path(self.home), outlive=outlive)
        try:
            self._wait_until_ready(time.monotonic() + seconds)
        except BaseException:
            self._end_process(signal.SIGKILL)
            raise

    def _end_process(self, signal_number: int) -> None:
        if self._process:
            try:
                self._process.signal_and_wait(signal_number, seconds=60)
            except TimeoutError:
                self._process.signal_and_wait(signal.SIGKILL, seconds=60)
            self._process = None

    def _wait_until_ready(self, deadline: float) -> None:
        while not self._is_reachable():
            if self._process and self._process.exit_code is not None:
                raise diagnose_failure(self.home, self.port, self._process.exit_code)
            if is_disk_full(self.home):
                raise errors.DiskFull(home=self.home, needed=MIN_DISK_SPACE)
            if time.monotonic() > deadline:
                raise errors.ServerStartTimeout(log=get_log_path(self.home), tail=read_log_tail(self.home))
            time.sleep(0.1)

    def _is_reachable(self) -> bool:
        try:
            settle_password(self.home, self.uri)
        except (exceptions.DriverError, exceptions.Neo4jError):
            return False
        return True

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self.start)
        except asyncio.CancelledError:
            await asyncio.to_thread(self.close)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)


def _find_free_port() -> int:
    while True:
        # Kernels assign higher ports to outgoing connections; this one is likely to stay free for a few seconds.
        port = 20_000 + secrets.randbelow(12_000)
        if _is_port_free(port):
            return port


def _is_port_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
