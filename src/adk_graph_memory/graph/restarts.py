"""Notice that a server was restarted, and so has lost what it had planned.

No statement that every user may run tells when a server started, but its connections do not outlive it.
"""

from __future__ import annotations

import math
import os
import time
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

import neo4j

if TYPE_CHECKING:
    from adk_graph_memory.graph.connection import Connection

RESTART_SECONDS = 5.0
"""No server restarts faster: one that has answered more recently was not restarted."""


class ServerState:
    """What this process knows of a server; all connections to it share this."""

    def __init__(self) -> None:
        self.plans = set[tuple[object, ...]]()
        """what it has planned; replaced when it may have lost its plans"""
        self.last_answer, self._is_doubted = -math.inf, True

    @property
    def may_be_restarted(self) -> bool:
        """Whether it may have been restarted since :meth:`trust`."""
        return self._is_doubted or time.monotonic() - self.last_answer > RESTART_SECONDS

    def doubt(self) -> None:
        """It may have been restarted."""
        self._is_doubted = True

    def trust(self) -> None:
        """It has answered on a connection that is kept to notice restarts."""
        self._is_doubted, self.last_answer = False, time.monotonic()

    def note_answer(self) -> None:
        """It has answered on another connection, which may be new."""
        self._is_doubted, self.last_answer = self.may_be_restarted, time.monotonic()


_states: defaultdict[str | None, ServerState] = defaultdict(ServerState)
"""By the servers' addresses."""


class KeptConnection:
    """A driver whose connection stays open: while it does, the server was not restarted.

    Args:
        connection: whose settings the driver has.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._driver: neo4j.Driver | None = None
        self._close_driver: Callable[[], object] = lambda: None
        self._process = 0
        self._addresses = set[neo4j.Address]()
        """where the driver has opened connections: more than one in a cluster"""
        self._known_plans: object = None
        self._note_restart: Callable[[], None] = lambda: None

    @property
    def server(self) -> ServerState:
        """The server at the other end."""
        return _states[self._connection.settings.uri]

    def check(self, note_restart: Callable[[], None]) -> neo4j.Driver:
        """Find out whether the server was restarted, in one round trip without a statement, and return the driver.

        If it may have been, forget its plans and call ``note_restart``, even before it answers.

        Raises:
            neo4j.exceptions.Neo4jError, neo4j.exceptions.DriverError: the server cannot be reached.
        """
        self._note_restart = note_restart
        if self._driver is None or self._process != os.getpid():  # a fork must not use its parent's sockets
            self._driver = self._open_driver()
        driver = self._driver
        driver.verify_connectivity()
        self.server.trust()
        self._known_plans = self.server.plans
        return driver

    def _open_driver(self) -> neo4j.Driver:
        note_opening = weakref.WeakMethod(self._note_opening)

        # The driver asks for each connection that it opens. With neo4j:// it also asks whenever it renews its routing
        # table, every few minutes: then plans that are there are asked for again, which takes milliseconds.
        def resolve(address: neo4j.Address) -> list[neo4j.Address]:
            if note := note_opening():
                note(address)
            return [address]

        self._process = os.getpid()
        self._addresses.clear()
        driver = self._connection.open_sync_driver(resolver=resolve, max_connection_lifetime=-1)
        self._close_driver = weakref.finalize(self, _close_driver, driver, self._process)
        return driver

    def _note_opening(self, address: neo4j.Address) -> None:
        """The driver opens a connection to an address, because it has none there or has lost it."""
        is_lost = address in self._addresses
        self._addresses.add(address)
        if is_lost or self.server.may_be_restarted:
            # Whoever else has lost a connection may have replaced the plans already, and may be planning.
            if not is_lost or self.server.plans is self._known_plans:
                self.server.plans = set()
            self._note_restart()

    def close(self) -> None:
        """Close the driver, which wakes a thread that waits for it; the next check opens another one.

        Nobody needs to: a driver is closed with the last reference to this, or at the end of the process.
        """
        self._driver = None
        self._close_driver()


def _close_driver(driver: neo4j.Driver, process: int) -> None:
    if os.getpid() == process:
        driver.close()
