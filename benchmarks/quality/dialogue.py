"""What was said, and what is asked of it: the one form in which every set of conversations is measured."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Turn:
    """What one of the speakers said; the id is unique in its conversation."""

    id: str
    author: str
    text: str
    at: datetime
    role: str = "user"
    """``model`` where an assistant speaks; two people who chat are both ``user``"""


@dataclass(frozen=True, slots=True)
class Session:
    """Turns that were said in one go."""

    id: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the ids of the turns that hold its answer; without any, nobody said it."""

    text: str
    answer: str
    kind: str
    evidence: tuple[str, ...]
    outdated: tuple[str, ...] = ()
    """the turns that held the answer before it changed"""


@dataclass(frozen=True, slots=True)
class Conversation:
    """All that was said by and to one user, oldest first."""

    id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
