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
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.records import Turn

logger = logging.getLogger(__name__)

MAX_TRACKED_SESSIONS = 10_000
"""Sessions of which it is kept in mind how far they were taken; of others all is taken again, and known already."""
MAX_BUFFERED_SESSIONS = 1_000
"""Sessions that may wait for a database that is away; the one that has waited longest is left to its next run."""


class MemoryUser(NamedTuple):
    """One user of one app, and the memory that is filled."""

    memory_service: Neo4jMemoryService
    app_name: str
    user_id: str


class SessionKey(NamedTuple):
    """One session."""

    user: MemoryUser
    session_id: str


@dataclass(slots=True)
class PendingTurns:
    """What was said in a session since it was last taken out, what a rewind took back, and the runs of it."""

    turns: list[Turn] = field(default_factory=list)
    rewound_turns: list[Turn] = field(default_factory=list)
    links: list[telemetry.Link] = field(default_factory=list)

    def append_turns(self, turns: Sequence[Turn], undone: Sequence[Turn], links: Sequence[telemetry.Link]) -> None:
        """Puts what came later behind."""
        self.turns += turns
        self.rewound_turns += undone
        self.links += links


class TurnBuffer:
    """May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending_turns: OrderedDict[SessionKey, PendingTurns] = OrderedDict()
        self._last_event_ids: OrderedDict[SessionKey, str] = OrderedDict()

    def add_session(self, memory: Neo4jMemoryService, session: Session) -> SessionKey | None:
        """Takes in what is new in a session; its key, if there is anything."""
        key = SessionKey(MemoryUser(memory, session.app_name, session.user_id), session.id)
        with self._lock:
            ids = [event.id for event in session.events]
            last = self._last_event_ids.get(key)
            start = ids.index(last) + 1 if last in ids else 0
            turns, undone = memory_codec.split_rewound(
                session.events, start, zone=memory.find_session_zone(session), lenient=True
            )
            if ids:
                self._last_event_ids[key] = ids[-1]
                self._last_event_ids.move_to_end(key)
            if len(self._last_event_ids) > MAX_TRACKED_SESSIONS:
                self._last_event_ids.popitem(last=False)
            if not turns and not undone:
                return None
            self._pending_turns.setdefault(key, PendingTurns()).append_turns(
                turns, undone, telemetry.link_current_span()
            )
            self._drop_oldest()
        return key

    def take_turns(self, key: SessionKey) -> PendingTurns | None:
        """All that waits of a session; None if nothing does."""
        with self._lock:
            return self._pending_turns.pop(key, None)

    def restore_turns(self, key: SessionKey, letter: PendingTurns) -> None:
        """What could not be delivered stands before what came meanwhile."""
        with self._lock:
            if later := self._pending_turns.pop(key, None):
                letter.append_turns(later.turns, later.rewound_turns, later.links)
            self._pending_turns[key] = letter
            self._pending_turns.move_to_end(key, last=False)
            self._drop_oldest()

    def list_pending_sessions(self) -> list[SessionKey]:
        """The sessions of which something waits."""
        with self._lock:
            return list(self._pending_turns)

    def reset_session(self, key: SessionKey) -> None:
        """Has the session's next run put in all of it again."""
        with self._lock:
            self._last_event_ids.pop(key, None)

    def _drop_oldest(self) -> None:
        while len(self._pending_turns) > MAX_BUFFERED_SESSIONS:
            key, _ = self._pending_turns.popitem(last=False)
            self._last_event_ids.pop(key, None)
            logger.error(
                "Too much waits for the database; what was said in session %s waits for its next run.", key.session_id
            )
