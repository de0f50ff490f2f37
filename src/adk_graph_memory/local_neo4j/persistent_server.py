"""The server kept for a person: ``up`` starts it or finds it running, ``status`` tells it, ``down`` stops it."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from pathlib import Path

from adk_graph_memory import errors, settings
from adk_graph_memory.local_neo4j import folders, jars, process, server_home
from adk_graph_memory.local_neo4j.server import LocalNeo4j


@dataclasses.dataclass(frozen=True)
class RunningServer:
    """How to reach the server, and where it lives; the content of :func:`settings.get_connection_file`."""

    uri: str
    username: str
    password: str = dataclasses.field(repr=False)
    pid: int
    version: str
    home: str


def start_server(
    port: int = 7687,
    *,
    version: str | None = None,
    heap: str = "1g",
    page_cache: str = "512m",
    progress: jars.ProgressCallback | None = None,
) -> RunningServer:
    """Start a server that outlives this process, or find the one that runs, whatever its port and version.

    Its store and its password are kept between runs, one of each for 5.26 and for 2026. A second call at the same
    time waits for the first.

    Args:
        port: The Bolt port on 127.0.0.1.
        version: "2026", "5.26" or a full version; if None what ADK_GRAPH_MEMORY_NEO4J says, else "2026".
        heap: The JVM's heap, in its notation.
        page_cache: Neo4j's page cache, in its notation; best as large as the store.
        progress: Called with the bytes fetched and the bytes in all, while jars are fetched.

    Raises:
        errors.LocalServerError: it did not start; the subclass and its message say what to do.
    """
    full = jars.resolve_version(version)
    home = _get_homes()["5.26" if jars.is_line_5(full) else "2026"]
    with (
        folders.translate_disk_full(settings.get_data_home(), needed="500 MB"),
        folders.lock_folder(settings.get_data_home()),
    ):
        if found := find_running_server():
            return found
        _stop_processes()  # what an `up` that was killed has left behind
        server = LocalNeo4j(
            home=home, port=port, version=full, heap=heap, page_cache=page_cache, progress=progress
        ).start(outlive=True)
        username, password = server.auth
        started = RunningServer(server.uri, username, password, server.pid or 0, full, str(home))
        server_home.write_private_file(settings.get_connection_file(), json.dumps(dataclasses.asdict(started)))
    return started


def find_running_server() -> RunningServer | None:
    """The server that runs, None if there is none."""
    try:
        told = RunningServer(**json.loads(settings.get_connection_file().read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return told if process.find_process(server_home.make_home_arguments(Path(told.home))) == told.pid else None


def stop_server(*, seconds: float = 120.0) -> bool:
    """Stop the server in order and wait for its end; its store and its password stay for the next ``up``.

    Returns:
        Whether there was one.

    Raises:
        errors.LocalServerError: it has not ended in time.
    """
    with folders.lock_folder(settings.get_data_home()):
        settings.get_connection_file().unlink(missing_ok=True)
        return _stop_processes(seconds)


def _get_homes() -> dict[str, Path]:
    return {line: settings.get_data_home() / f"neo4j-{line}" for line in ("2026", "5.26")}


def _stop_processes(seconds: float = 120.0) -> bool:
    stopped = False
    deadline = time.monotonic() + seconds
    for home in _get_homes().values():
        arguments = server_home.make_home_arguments(home)
        if pid := process.find_process(arguments):
            os.kill(pid, signal.SIGTERM)
            stopped = True
            while process.find_process(arguments):
                if time.monotonic() > deadline:
                    raise errors.LocalServerError(reason=f"process {pid} did not end within {seconds:g} s")
                time.sleep(0.1)
    return stopped
