"""What a guard is asked before a fact is written, what it answers, and what it holds back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from adk_graph_memory import errors
from adk_graph_memory.records.turns import Origin

GuardAction = Literal["keep", "hold", "drop"]


@dataclass(frozen=True, slots=True)
class GuardCandidate:
    """A fact, or a statement added directly, that is about to be written."""

    text: str
    """its wording"""
    quotes: tuple[str, ...]
    """the words that it rests on"""
    origin: Origin
    author: str
    """who said it"""
    turn_text: str
    """the whole text of the turns that it rests on"""
    app_name: str
    user_id: str
    subject: str = ""
    """the name of whom or what it speaks of"""
    speakers: tuple[tuple[str, ...], ...] = ()
    """the people who speak in this user's turns, each by all names"""
    pinned_texts: tuple[str, ...] = ()
    """the pinned facts that it would change"""


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """What is to become of a fact: it is kept, held until somebody reviews it, or dropped and only counted."""

    action: GuardAction
    rule: str = "guard"
    reason: str = ""

    def __post_init__(self) -> None:
        if self.action not in get_args(GuardAction):
            raise errors.InvalidArgument(reason=f"a guard can keep, hold or drop a fact, not {self.action!r} it")


@dataclass(frozen=True, slots=True)
class HeldFact:
    """A fact that a guard holds back until somebody releases or rejects it."""

    id: str
    text: str
    quotes: tuple[str, ...]
    author: str
    origin: Origin
    rule: str
    reason: str
    said_at: datetime
    session_id: str
