"""Cache the names, languages and time zone of the speakers in a user's memory until the user is written to."""

from __future__ import annotations

import logging
from datetime import timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from neo4j import Record

from adk_graph_memory import errors
from adk_graph_memory.graph import json_map
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.language.dates import parse_timezone
from adk_graph_memory.language.detection import detect_languages
from adk_graph_memory.records.scopes import Scope

SpeakerNames = tuple[tuple[str, ...], ...]
"""For each speaker the author's name on the turns, then their other names."""

LANGUAGE_SAMPLE_SIZE, LANGUAGE_SAMPLE_CHARACTERS = 32, 200
"""Memories from which a user's languages are detected, and characters of each."""
logger = logging.getLogger(__name__)

MAX_CACHED_USERS = 10_000
"""Users in the cache."""


class SpeakerProfile(NamedTuple):
    """The names of all speakers, and the user's languages (most frequent first) and time zone."""

    names: SpeakerNames
    languages: tuple[str, ...]
    zone: tzinfo


class SpeakerCache:
    """A cache of speaker profiles: one statement per user, and another after each write to the user.

    Args:
        connection: where profiles are looked up.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._profiles: dict[str, tuple[int, SpeakerProfile]] = {}

    async def find_speaker_profile(self, scope: Scope) -> SpeakerProfile:
        """Find a user's profile in the cache, or else in the graph."""
        entry = self._profiles.get(scope.key)
        if entry is None:
            [row] = await self._connection.user(scope).run_statement(
                "speakers", sample=LANGUAGE_SAMPLE_SIZE, readable=LANGUAGE_SAMPLE_CHARACTERS
            )
            names = tuple(tuple(names) for names in row["speakers"])
            zone = _choose_zone(row, self._connection.settings.timezone)
            entry = row["writes"], SpeakerProfile(names, detect_languages(row["texts"]), zone)
            if len(self._profiles) >= MAX_CACHED_USERS:
                self._profiles.clear()
            self._profiles[scope.key] = entry
        return entry[1]

    def get_known_profile(self, scope: Scope) -> SpeakerProfile:
        """Return the user's profile if the cache has it, else one of nobody; asks nothing."""
        entry = self._profiles.get(scope.key)
        return entry[1] if entry else SpeakerProfile((), (), self._connection.settings.timezone)

    async def find_zone(self, scope: Scope) -> tzinfo:
        """Find the user's current time zone, bypassing the cache: their state changes without a write to memory."""
        self._profiles.pop(scope.key, None)
        return (await self.find_speaker_profile(scope)).zone

    def drop_outdated(self, scope: Scope, writes: int | None) -> None:
        """Drop the user's cached profile if a statement has seen another number of writes since."""
        entry = self._profiles.get(scope.key)
        if entry is not None and entry[0] != writes:
            self._profiles.pop(scope.key, None)


def _choose_zone(row: Record, configured_zone: ZoneInfo) -> tzinfo:
    """The zone in the user's state, or else the configured one; if that is UTC, the offset of their latest turns."""
    if name := json_map.parse_json_map(row["timezone"]).get("timezone"):
        try:
            return parse_timezone(name)
        except errors.UnknownTimezone as error:
            logger.warning("A user's state has an unknown time zone. %s", error)
    if configured_zone.key != "UTC" or row["offset"] is None:
        return configured_zone
    return timezone(timedelta(seconds=row["offset"]))
