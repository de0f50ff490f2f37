"""Who speaks in what memory holds of a user, how, and where: kept in mind until the user is written to."""

from __future__ import annotations

import logging
from datetime import timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from neo4j import Record

from adk_graph_memory import errors
from adk_graph_memory.graph import json_map
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.migrate import prepare_connection
from adk_graph_memory.language.detection import detect_languages
from adk_graph_memory.language.zones import parse_timezone
from adk_graph_memory.records import Scope

SpeakerNames = tuple[tuple[str, ...], ...]
"""Of each speaker the author's name, as it stands on the turns, and whatever else they are called."""

LANGUAGE_SAMPLE_SIZE, LANGUAGE_SAMPLE_CHARACTERS = 32, 200
"""Memories that tell in which languages a user speaks, and characters of each."""
logger = logging.getLogger(__name__)

MAX_CACHED_USERS = 10_000
"""Users whose speakers are kept in mind."""


class SpeakerProfile(NamedTuple):
    """Names of all who speak; of people, not the agent, the languages, the most usual first, and the time zone."""

    names: SpeakerNames
    languages: tuple[str, ...]
    zone: tzinfo


class SpeakerCache:
    """Keeps in mind who speaks, and how: one statement a user and process, and one after each write.

    Args:
        connection: a connection.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._profiles: dict[str, tuple[int, SpeakerProfile]] = {}

    async def find_speaker_profile(self, scope: Scope) -> SpeakerProfile:
        """Who speaks in what memory holds of a user, in which languages, and in which zone as far as it is known."""
        known = self._profiles.get(scope.key)
        if known is None:
            [row] = await self._connection.run_statement(
                "speakers", scope=scope.key, sample=LANGUAGE_SAMPLE_SIZE, readable=LANGUAGE_SAMPLE_CHARACTERS
            )
            names = tuple(tuple(names) for names in row["speakers"])
            zone = _choose_zone(row, self._connection.settings.timezone)
            known = row["writes"], SpeakerProfile(names, detect_languages(row["texts"]), zone)
            if len(self._profiles) >= MAX_CACHED_USERS:
                self._profiles.clear()
            self._profiles[scope.key] = known
        return known[1]

    async def find_zone(self, scope: Scope) -> tzinfo:
        """The user's time zone as it is by now: their state changes without a write to memory."""
        await prepare_connection(self._connection)
        self._profiles.pop(scope.key, None)
        return (await self.find_speaker_profile(scope)).zone

    def drop_outdated(self, scope: Scope, writes: int | None) -> None:
        """Forgets them where a statement has seen another number of writes."""
        known = self._profiles.get(scope.key)
        if known is not None and known[0] != writes:
            self._profiles.pop(scope.key, None)


def _choose_zone(row: Record, configured: ZoneInfo) -> tzinfo:
    """The zone that the user's state names, or the configured one; where that is UTC, the offset they spoke in last."""
    if named := json_map.parse_json_map(row["timezone"]).get("timezone"):
        try:
            return parse_timezone(named)
        except errors.UnknownTimezone as error:
            logger.warning("A user's state names no known time zone. %s", error)
    if configured.key != "UTC" or row["offset"] is None:
        return configured
    return timezone(timedelta(seconds=row["offset"]))
