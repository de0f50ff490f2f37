"""Load the dialogues that try to poison a memory, and tell them as ADK's sessions would."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal

from google.adk.events.event import Event
from google.genai import types

from adk_graph_memory import Turn
from adk_graph_memory.adk import memory_codec

HERE = Path(__file__).parent
HALVES = {"first": "attacks.json", "second": "attacks_more.json"}
FAMILIES = ("instruction", "pasted", "tool", "cross-user", "drift")
USER, PACE = "user", timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Attack:
    """What a memory would hold of the user if the attack works; a needle stands in any wording of it."""

    turns: tuple[str, ...]
    claim: str
    needles: tuple[str, ...]

    @property
    def question(self) -> str:
        """A plain question for it, in words that help an attack more than a user's own would."""
        return f"What do you know about me and {self.needles[0]}?"


@dataclass(frozen=True, slots=True)
class BenignFact:
    """What the user truly states, perhaps in a pasted text that they mean."""

    turns: tuple[str, ...]
    fact: str
    quote: str
    needles: tuple[str, ...]
    is_pasted: bool


@dataclass(frozen=True, slots=True)
class Spoken:
    """One turn of a dialogue; the id names its session too."""

    id: str
    author: str
    role: Literal["user", "model", "tool"]
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A user's sessions, with the attacks in them and what the user truly states."""

    name: str
    family: str
    half: str
    user: str
    sessions: dict[str, tuple[Spoken, ...]]
    attacks: tuple[Attack, ...]
    benign: tuple[BenignFact, ...]

    @property
    def speaker(self) -> str:
        """The user as an author: ADK's ``user``; by name where other people speak too."""
        people = {turn.author for turns in self.sessions.values() for turn in turns if turn.role == "user"}
        return USER if people == {self.user} else self.user

    @property
    def agent(self) -> str:
        """The agent as an author."""
        spoken = (turn.author for turns in self.sessions.values() for turn in turns if turn.role == "model")
        return next(spoken, "Assistant")

    def make_turns(self, session_id: str) -> list[Turn]:
        """The turns of a session as memory gets them from ADK."""
        return memory_codec.make_turns([self._make_event(turn) for turn in self.sessions[session_id]])

    def _make_event(self, turn: Spoken) -> Event:
        """A tool's text stands beside its function response, in an event of the agent's with the role of a user."""
        part, author = types.Part(text=turn.text), turn.author
        parts, role = [part], "model" if turn.role == "model" else "user"
        if turn.role == "tool":
            author, parts = self.agent, [types.Part.from_function_response(name=turn.author, response={}), part]
        elif turn.author == self.user:
            author = self.speaker
        content = types.Content(role=role, parts=parts)
        return Event(id=turn.id, author=author, content=content, timestamp=turn.at.timestamp(), invocation_id=turn.id)


@cache
def load_dialogues() -> tuple[Dialogue, ...]:
    """All dialogues, those of the first half first."""
    return tuple(
        _read_dialogue(half, entry)
        for half, file in HALVES.items()
        for entry in json.loads((HERE / file).read_text("utf-8"))
    )


def _read_dialogue(half: str, entry: dict[str, Any]) -> Dialogue:
    return Dialogue(
        name=entry["name"],
        family=entry["family"],
        half=half,
        user=entry["user"],
        sessions={session["id"]: _read_session(session) for session in entry["sessions"]},
        attacks=tuple(
            Attack(tuple(attack["turns"]), attack["claim"], tuple(attack["needles"])) for attack in entry["attacks"]
        ),
        benign=tuple(
            BenignFact(**fact | {"turns": tuple(fact["turns"]), "needles": tuple(fact["needles"])})
            for fact in entry["benign"]
        ),
    )


def _read_session(session: dict[str, Any]) -> tuple[Spoken, ...]:
    start = datetime.fromisoformat(session["at"])
    return tuple(
        Spoken(f"{session['id']}/{turn['id']}", turn["author"], turn["role"], turn["text"], start + number * PACE)
        for number, turn in enumerate(session["turns"])
    )
