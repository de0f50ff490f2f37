"""Run a Neo4j server for as long as tests or a notebook need it."""

from __future__ import annotations

import asyncio
import atexit
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import neo4j
from neo4j import exceptions

from adk_graph_memory import errors
from adk_graph_memory.local_neo4j import jars, java, process, server_home

QUICK_JVM_FLAGS = ("-XX:TieredStopAtLevel=1",)
READ_ONLY_SETTINGS = {"server.databases.default_to_read_only", "server.databases.read_only"}


class LocalNeo4j:
    """A real Neo4j Community server, run from its jars, for tests and notebooks.

    Use it as ``async with LocalNeo4j() as server``, or call :meth:`start` and :meth:`close`, which block. After
    :meth:`stop` or :meth:`kill` another :meth:`start` reuses the port, password and data. On Linux the server ends with
    the process that started it, however that ends.

    Args:
        home: The folder for its store; if None a temporary one, removed by :meth:`close`.
        port: The Bolt port on 127.0.0.1; if None a free one.
        version: "2026", "5.26" or a full version; defaults to ADK_GRAPH_MEMORY_NEO4J, else "2026".
        heap: The size of the JVM's heap, in the JVM's notation: "512m".
        page_cache: The size of Neo4j's page cache, in Neo4j's notation; best as large as the store.
        conf: Further settings for neo4j.conf; they override the defaults.
        jvm_flags: Further flags of the JVM. By default it compiles as little as a server that lives for minutes needs:
            two thirds of the CPU time to start and to plan first statements, more for heavy ones. ``()`` for a server
            that lives longer, or is measured.
        progress: Called with the fetched and the total bytes while jars are fetched.

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
        self._process: process.ServerProcess | None = None

    @property
    def auth(self) -> tuple[str, str]:
        return "neo4j", server_home.ensure_password(self.home)

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
        process.check_platform()
        with self._lock:
            if self.pid:
                return self
            if not _is_port_free(self.port):
                raise errors.PortTaken(port=self.port)
            if server_home.is_store_locked(self.home):
                raise errors.StoreInUse(home=self.home)
            runtime = java.find_java(self.version)
            classpath = jars.fetch_jars(jars.load_locked_jars(self.version), self._progress)
            if not outlive:
                atexit.register(self.close)
            confs = [self._conf]
            if READ_ONLY_SETTINGS & self._conf.keys() and server_home.is_store_missing(self.home):
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
        self, runtime: java.Java, classpath: list[Path], conf: Mapping[str, str], seconds: float, outlive: bool
    ) -> None:
        server_home.write_configuration(
            self.home, version=self.version, port=self.port, page_cache=self._page_cache, conf=conf
        )
        command = server_home.make_command(
            self.home,
            version=self.version,
            java=runtime,
            classpath=classpath,
            heap=self._heap,
            jvm_flags=self._jvm_flags,
        )
        self._process = process.ServerProcess(command, server_home.get_log_path(self.home), outlive=outlive)
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
                raise server_home.diagnose_failure(self.home, self.port, self._process.exit_code)
            if server_home.is_disk_full(self.home):
                raise errors.DiskFull(home=self.home, needed=server_home.MIN_DISK_SPACE)
            if time.monotonic() > deadline:
                raise errors.ServerStartTimeout(
                    log=server_home.get_log_path(self.home), tail=server_home.read_log_tail(self.home)
                )
            time.sleep(0.1)

    def _is_reachable(self) -> bool:
        try:
            with (
                neo4j.GraphDatabase.driver(self.uri, auth=self.auth) as driver,
                driver.session(database="neo4j") as session,
            ):
                session.run("RETURN 1").consume()
        except exceptions.AuthError as error:
            reason = f"its store refuses the password in {self.home / 'password'}"
            raise errors.LocalServerError(reason=reason) from error
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
