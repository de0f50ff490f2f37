"""What an operator sees of a store: apps and users with counts, and what each day cost; nobody's words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How much the database holds of all users, expired data too."""

    users: int
    sessions: int
    memories: int
    """turns that were read, and facts"""


@dataclass(frozen=True, slots=True)
class AppCounts:
    """An app with counts of what is stored, expired data too, and of its unfinished requests to remember."""

    app_name: str
    users: int
    pending: int
    """requests that wait or are being read"""
    failed: int
    """those of them that were tried and that nobody works at"""
    sessions: int | None = None
    """so are ``turns`` and ``facts``: None in a store that is too large to count them for a page"""
    turns: int | None = None
    facts: int | None = None


@dataclass(frozen=True, slots=True)
class UserCounts:
    """A user of an app, or a memory that users share, with the same counts."""

    app_name: str
    user_id: str
    is_shared: bool
    key: str
    """stands for the user in addresses"""
    sessions: int
    turns: int
    facts: int
    pending: int
    failed: int
    written_at: datetime | None
    """when a session or a request to remember was last written"""


@dataclass(frozen=True, slots=True)
class DayCost:
    """What an app's finished requests of a day cost that one extractor read; ``cost`` is None without a price."""

    day: str
    extractor: str
    requests: int
    sessions: int
    failures: int
    """tries that failed before these requests were finished"""
    turns: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class CostPage:
    """The latest days of an app's cost, as many as a page reads."""

    days: tuple[DayCost, ...]
    before: str | None
    """the day before which the next page begins; None if this is the last"""
    is_partial: bool
    """whether the page holds one day, and not all of it"""
