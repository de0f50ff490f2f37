"""Start, find and stop the persistent server of the commands ``up``, ``status`` and ``down``."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from neo4j import exceptions

from adk_graph_memory import errors
from adk_graph_memory.graph.local_neo4j import jars, server
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j, find_process, list_home_arguments
from adk_graph_memory.runtime import environment
from adk_graph_memory.runtime.private_files import write_private_file

HEAP, PAGE_CACHE = "1g", "512m"
"""The memory that the server gets; docker-compose.yml gives as much."""
DEFAULT_PORT = 7687
"""Neo4j's own port for Bolt."""


@dataclasses.dataclass(frozen=True)
class RunningServer:
    """The server's address, credentials, process and home; the content of :func:`environment.get_connection_file`."""

    uri: str
    username: str
    password: str = dataclasses.field(repr=False)
    pid: int
    version: str
    home: str


def start_server(
    port: int | None = None,
    *,
    version: str | None = None,
    rotate_password: bool = False,
    progress: jars.ProgressCallback | None = None,
) -> RunningServer:
    """Start a server that outlives this process, or return the running one, whatever its port and version.

    Its store and password are kept between runs, separately for 5.26 and 2026. A concurrent second call waits for the
    first. If a rotation of the password was killed, this finishes it.

    Args:
        port: The Bolt port on 127.0.0.1, 0 for any free one; defaults to the port that this server had before.
        version: "2026", "5.26" or a full version; defaults to ADK_GRAPH_MEMORY_NEO4J, else "2026".
        rotate_password: Give the server a new password.
        progress: Called with the fetched and the total bytes while jars are fetched.

    Raises:
        errors.LocalServerError: it did not start; the subclass and its message say what to do.
    """
    full_version = jars.resolve_version(version)
    home = _get_homes()["5.26" if jars.is_line_5(full_version) else "2026"]
    with (
        jars.translate_disk_full(environment.get_data_home(), needed="500 MB"),
        jars.lock_folder(environment.get_data_home()),
    ):
        running = find_running_server()
        if running is None:
            _stop_processes()  # a killed `up` may have left one without a connection file
            started = LocalNeo4j(
                home=home,
                port=server.read_port(home) or DEFAULT_PORT if port is None else port,
                version=full_version,
                heap=HEAP,
                page_cache=PAGE_CACHE,
                jvm_flags=(),
                progress=progress,
            ).start(outlive=True)
            running = RunningServer(started.uri, *started.auth, started.pid or 0, full_version, str(home))
        running = _update_password(running, server.rotate_password if rotate_password else server.settle_password)
        write_private_file(environment.get_connection_file(), json.dumps(dataclasses.asdict(running)))
    return running


def _update_password(running: RunningServer, update: Callable[[Path, str], None]) -> RunningServer:
    try:
        update(Path(running.home), running.uri)
    except (exceptions.DriverError, exceptions.Neo4jError) as error:
        raise errors.LocalServerError(reason=str(error)) from error
    return dataclasses.replace(running, password=server.ensure_password(Path(running.home)))


def find_running_server() -> RunningServer | None:
    """Find the running server by its connection file; None if its process does not run."""
    try:
        running = RunningServer(**json.loads(environment.get_connection_file().read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return running if find_process(list_home_arguments(Path(running.home))) == running.pid else None


def stop_server(*, seconds: float = 120.0) -> bool:
    """Shut the server down and wait until it has ended; its store and password stay for the next ``up``.

    Returns:
        Whether a server was running.

    Raises:
        errors.LocalServerError: it has not ended within ``seconds``.
    """
    with jars.lock_folder(environment.get_data_home()):
        environment.get_connection_file().unlink(missing_ok=True)
        return _stop_processes(seconds)


def _get_homes() -> dict[str, Path]:
    return {line: environment.get_data_home() / f"neo4j-{line}" for line in ("2026", "5.26")}


def _stop_processes(seconds: float = 120.0) -> bool:
    was_running = False
    deadline = time.monotonic() + seconds
    for home in _get_homes().values():
        arguments = list_home_arguments(home)
        if pid := find_process(arguments):
            os.kill(pid, signal.SIGTERM)
            was_running = True
            while find_process(arguments):
                if time.monotonic() > deadline:
                    raise errors.LocalServerError(reason=f"process {pid} did not end within {seconds:g} s")
                time.sleep(0.1)
    return was_running
