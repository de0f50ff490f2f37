"""Whose memory it is, and what goes into it: turns of a session, and statements told to memory itself."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from adk_graph_memory import errors
from adk_graph_memory.language.zones import apply_fixed_offset
from adk_graph_memory.records.text_keys import digest

Role = Literal["user", "model"]

NO_SESSION = ":no-session:"
"""The stream of turns that came without a session id; one a user."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One user of one app: everything stored belongs to exactly one scope."""

    app_name: str
    user_id: str

    @property
    def key(self) -> str:
        """What nodes, constraints and queries carry; ids of any length and script become 32 hex characters."""
        return digest(self.app_name, self.user_id)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one author said at one time (an aware datetime, with the offset of where it was said), as memory reads it.

    ``seq`` is the turn's place in its session: of turns of one time the higher one was said later. Both it and
    ``session_id`` are filled in when the turn is claimed.
    """

    id: str
    author: str
    text: str
    at: datetime
    role: Role = "user"
    seq: int = 0
    session_id: str = ""

    def __post_init__(self) -> None:
        check_timezone_aware(self.at)
        object.__setattr__(self, "at", apply_fixed_offset(self.at))
        object.__setattr__(self, "text", _normalize_unicode(self.text))

    @property
    def text_key(self) -> str:
        """Stands for the text: a turn that was edited since it was read has another one."""
        return digest(self.text)

    def make_memory_id(self, session_id: str) -> str:
        """The id under which memory knows this turn of that session."""
        return f"event:{digest(session_id, self.id)}"


@dataclass(frozen=True, slots=True)
class Statement:
    """Something to be remembered as it is, told by nobody in a session: its own source."""

    text: str
    at: datetime
    author: str | None = None
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_timezone_aware(self.at)
        object.__setattr__(self, "at", apply_fixed_offset(self.at))
        object.__setattr__(self, "text", _normalize_unicode(self.text))


def _normalize_unicode(text: str) -> str:
    """In Unicode's NFC, as it is searched for."""
    if not isinstance(text, str):
        raise errors.ConfigurationError(reason=f"the text {text!r} is no text")
    return unicodedata.normalize("NFC", text)


def check_timezone_aware(moment: datetime) -> None:
    """Refuses a time without an offset: which moment it means depends on the machine that reads it."""
    if not isinstance(moment, datetime):
        raise errors.ConfigurationError(reason=f"{moment!r} is no datetime")
    if moment.tzinfo is None:
        raise errors.ConfigurationError(reason=f"{moment!r} has no time zone; use datetime.now(UTC) or the like")
    if not 1 < moment.year < 9999:
        raise errors.ConfigurationError(reason=f"{moment!r} is not between the years 2 and 9998")
