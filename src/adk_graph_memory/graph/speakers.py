"""Who speaks in what memory holds of a user, how, and where: kept in mind until the user is written to."""

from __future__ import annotations

import logging
from datetime import timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from neo4j import Record

from adk_graph_memory import errors
from adk_graph_memory.graph import members
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.migrate import prepared
from adk_graph_memory.language.words import languages_of
from adk_graph_memory.language.zones import named_zone
from adk_graph_memory.records import Scope

Names = tuple[tuple[str, ...], ...]
"""Of each speaker the author's name, as it stands on the turns, and whatever else they are called."""

SAMPLE, READABLE = 32, 200
"""Memories that tell in which languages a user speaks, and characters of each."""
logger = logging.getLogger(__name__)

MOST_USERS = 10_000
"""Users whose speakers are kept in mind."""


class Speech(NamedTuple):
    """Names of all who speak; of people, not the agent, the languages, the most usual first, and the time zone."""

    names: Names
    languages: tuple[str, ...]
    zone: tzinfo


class Speakers:
    """Keeps in mind who speaks, and how: one statement a user and process, and one after each write.

    Args:
        connection: a connection.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, tuple[int, Speech]] = {}

    async def find_speech(self, scope: Scope) -> Speech:
        """Who speaks in what memory holds of a user, in which languages, and in which zone as far as it is known."""
        known = self._known.get(scope.key)
        if known is None:
            [row] = await self._connection.run("speakers", scope=scope.key, sample=SAMPLE, readable=READABLE)
            names = tuple(tuple(names) for names in row["speakers"])
            zone = _zone(row, self._connection.settings.timezone)
            known = row["writes"], Speech(names, languages_of(row["texts"]), zone)
            if len(self._known) >= MOST_USERS:
                self._known.clear()
            self._known[scope.key] = known
        return known[1]

    async def find_zone(self, scope: Scope) -> tzinfo:
        """The user's time zone as it is by now: their state changes without a write to memory."""
        await prepared(self._connection)
        self._known.pop(scope.key, None)
        return (await self.find_speech(scope)).zone

    def seen(self, scope: Scope, writes: int | None) -> None:
        """Forgets them where a statement has seen another number of writes."""
        known = self._known.get(scope.key)
        if known is not None and known[0] != writes:
            self._known.pop(scope.key, None)


def _zone(row: Record, configured: ZoneInfo) -> tzinfo:
    """The zone that the user's state names, or the configured one; where that is UTC, the offset they spoke in last."""
    if named := members.read(row["timezone"]).get("timezone"):
        try:
            return named_zone(named)
        except errors.UnknownTimezone as error:
            logger.warning("A user's state names no known time zone. %s", error)
    if configured.key != "UTC" or row["offset"] is None:
        return configured
    return timezone(timedelta(seconds=row["offset"]))
