"""Buffer the turns of each session that are not in the graph yet."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from adk_graph_memory import telemetry
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Turn

logger = logging.getLogger(__name__)

MAX_TRACKED_SESSIONS = 10_000
"""Sessions whose last buffered event is remembered; other sessions are harmlessly buffered again as a whole."""
MAX_BUFFERED_SESSIONS = 1_000
"""Sessions that may wait for an unavailable database; beyond it the oldest is dropped until its next run."""


SplitTurns = Callable[[int], tuple[list[Turn], list[Turn]]]
"""Returns the turns of a session from its n-th event on, and all turns that these events undo."""


class MemoryUser(NamedTuple):
    """A user of an app, and the memory that is filled."""

    memory: GraphMemory
    app_name: str
    user_id: str


class SessionKey(NamedTuple):
    """A session of a user."""

    user: MemoryUser
    session_id: str


@dataclass(slots=True)
class PendingTurns:
    """A session's turns since they were last taken, those that a rewind has undone, and links to the runs' spans."""

    turns: list[Turn] = field(default_factory=list)
    rewound_turns: list[Turn] = field(default_factory=list)
    links: list[telemetry.Link] = field(default_factory=list)

    def append_turns(
        self, turns: Sequence[Turn], rewound_turns: Sequence[Turn], links: Sequence[telemetry.Link]
    ) -> None:
        """Append later turns, rewound turns and links."""
        self.turns += turns
        self.rewound_turns += rewound_turns
        self.links += links


class TurnBuffer:
    """Pending turns by session; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending_turns: OrderedDict[SessionKey, PendingTurns] = OrderedDict()
        self._last_event_ids: OrderedDict[SessionKey, str] = OrderedDict()

    def add_session(self, key: SessionKey, event_ids: Sequence[str], split_turns: SplitTurns) -> bool:
        """Buffer the new turns of a session: those behind the event that was its last one before.

        Args:
            key: the session.
            event_ids: the ids of all its events that the caller can see, in order.
            split_turns: makes their turns.

        Returns:
            Whether anything is new.
        """
        with self._lock:
            last_id = self._last_event_ids.get(key)
            start = event_ids.index(last_id) + 1 if last_id is not None and last_id in event_ids else 0
            turns, rewound_turns = split_turns(start)
            if event_ids:
                self._last_event_ids[key] = event_ids[-1]
                self._last_event_ids.move_to_end(key)
            if len(self._last_event_ids) > MAX_TRACKED_SESSIONS:
                self._last_event_ids.popitem(last=False)
            if not turns and not rewound_turns:
                return False
            self._pending_turns.setdefault(key, PendingTurns()).append_turns(
                turns, rewound_turns, telemetry.link_current_span()
            )
            self._drop_oldest()
        return True

    def take_turns(self, key: SessionKey) -> PendingTurns | None:
        """Remove and return a session's pending turns; None if there are none."""
        with self._lock:
            return self._pending_turns.pop(key, None)

    def restore_turns(self, key: SessionKey, pending: PendingTurns) -> bool:
        """Put back turns that could not be queued, before those that came meanwhile; return whether any came."""
        with self._lock:
            if later := self._pending_turns.pop(key, None):
                pending.append_turns(later.turns, later.rewound_turns, later.links)
            self._pending_turns[key] = pending
            self._pending_turns.move_to_end(key, last=False)
            self._drop_oldest()
        return later is not None

    def list_pending_sessions(self) -> list[SessionKey]:
        """List the sessions with pending turns."""
        with self._lock:
            return list(self._pending_turns)

    def _drop_oldest(self) -> None:
        while len(self._pending_turns) > MAX_BUFFERED_SESSIONS:
            key, _ = self._pending_turns.popitem(last=False)
            self._last_event_ids.pop(key, None)
            logger.error(
                "The buffer is full while the database is away; session %s is queued at its next run.",
                key.session_id,
            )
