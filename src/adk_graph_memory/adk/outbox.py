"""Sessions go in after each run; what was said in them and is not in the graph yet comes out, each session's as one."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from google.adk.sessions.session import Session

from adk_graph_memory import telemetry
from adk_graph_memory.adk import entries
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.records import Turn

logger = logging.getLogger(__name__)

MOST_KNOWN = 10_000
"""Sessions of which it is kept in mind how far they were taken; of others all is taken again, and known already."""
MOST_WAITING = 1_000
"""Sessions that may wait for a database that is away; the one that has waited longest is left to its next run."""


class Owner(NamedTuple):
    """One user of one app, and the memory that is filled."""

    memory: Neo4jMemoryService
    app_name: str
    user_id: str


class Key(NamedTuple):
    """One session."""

    owner: Owner
    id: str


@dataclass(slots=True)
class Letter:
    """What was said in a session since it was last taken out, what a rewind took back, and the runs of it."""

    turns: list[Turn] = field(default_factory=list)
    undone: list[Turn] = field(default_factory=list)
    links: list[telemetry.Link] = field(default_factory=list)

    def add(self, turns: Sequence[Turn], undone: Sequence[Turn], links: Sequence[telemetry.Link]) -> None:
        """Puts what came later behind."""
        self.turns += turns
        self.undone += undone
        self.links += links


class Outbox:
    """May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._letters: OrderedDict[Key, Letter] = OrderedDict()
        self._last: OrderedDict[Key, str] = OrderedDict()

    def put(self, memory: Neo4jMemoryService, session: Session) -> Key | None:
        """Takes in what is new in a session; its key, if there is anything."""
        key = Key(Owner(memory, session.app_name, session.user_id), session.id)
        with self._lock:
            ids = [event.id for event in session.events]
            last = self._last.get(key)
            start = ids.index(last) + 1 if last in ids else 0
            turns, undone = entries.split_rewound(session.events, start, zone=memory.zone_of(session), lenient=True)
            if ids:
                self._last[key] = ids[-1]
                self._last.move_to_end(key)
            if len(self._last) > MOST_KNOWN:
                self._last.popitem(last=False)
            if not turns and not undone:
                return None
            self._letters.setdefault(key, Letter()).add(turns, undone, telemetry.here())
            self._give_up_too_many()
        return key

    def take(self, key: Key) -> Letter | None:
        """All that waits of a session; None if nothing does."""
        with self._lock:
            return self._letters.pop(key, None)

    def put_back(self, key: Key, letter: Letter) -> None:
        """What could not be delivered stands before what came meanwhile."""
        with self._lock:
            if later := self._letters.pop(key, None):
                letter.add(later.turns, later.undone, later.links)
            self._letters[key] = letter
            self._letters.move_to_end(key, last=False)
            self._give_up_too_many()

    def waiting(self) -> list[Key]:
        """The sessions of which something waits."""
        with self._lock:
            return list(self._letters)

    def skip(self, key: Key) -> None:
        """Has the session's next run put in all of it again."""
        with self._lock:
            self._last.pop(key, None)

    def _give_up_too_many(self) -> None:
        while len(self._letters) > MOST_WAITING:
            key, _ = self._letters.popitem(last=False)
            self._last.pop(key, None)
            logger.error("Too much waits for the database; what was said in session %s waits for its next run.", key.id)
