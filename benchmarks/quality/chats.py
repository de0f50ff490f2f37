"""Make twelve users' chats with an assistant of banks of phrases and what the users let slip, with questions.

All of ``chats.json`` is invented. A phrase may have slots, ``{tool}``, each filled from the bank of that name; one with
a number, ``{tool1}``, is filled alike wherever it stands in the phrase. A user's details are ``mentioned`` in passing,
``answered`` when the assistant asks back, or ``advised`` by the assistant, each in the session of its number.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.quality.dialogue import Conversation, Question, Session, Turn

PATH = Path(__file__).with_suffix(".json")
YEAR, SESSIONS, A_MONTH = 2025, 40, 4
EXCHANGES = (3, 3, 4, 4, 4, 5, 5, 6, 7)
"""How often both speak in a session: one of these."""
SHORT = {"task": "advice", "mistake": "warning"}
"""What stands before the comma in a phrase of another bank."""

_SLOT = re.compile(r"\{(\w+?)(\d?)\}")
_END_OF_SENTENCE = re.compile(r"(?<=[.?!]) ")

Bank = Mapping[str, Sequence[str]]
Detail = tuple[str, ...]
"""How it comes up, and the words."""


def load() -> list[Conversation]:
    """The chats of all users, the same every time."""
    banks = json.loads(PATH.read_text("utf-8"))
    return [_make_conversation(number, user, banks) for number, user in enumerate(banks["users"], 1)]


class _Deck:
    """Phrases that come up in any order, but none again before about half of the others."""

    def __init__(self, phrases: Sequence[str], chance: random.Random) -> None:
        self._waiting, self._chance = chance.sample(phrases, len(phrases)), chance

    def draw(self) -> str:
        drawn = self._waiting.pop(self._chance.randrange((len(self._waiting) + 1) // 2))
        self._waiting.append(drawn)
        return drawn


class _Talk:
    """What the two say on one subject."""

    def __init__(self, decks: Mapping[str, _Deck]) -> None:
        self._decks = decks

    def begin(self) -> list[str]:
        """What the user comes with, and a reply."""
        return [self._fill("{ask}"), self._fill("{opening} {body}")]

    def go_on(self) -> list[str]:
        """What the user asks then, and a reply that takes it up."""
        asked, opening = self._fill("{turn}").split(" | ")
        return [asked, f"{opening} {self._fill('{body}')}"]

    def _fill(self, phrase: str) -> str:
        chosen: dict[str, str] = {}

        def fill_slot(slot: re.Match[str]) -> str:
            name, number = slot[1].lower(), slot[2]
            if not number or name + number not in chosen:
                chosen[name + number] = self._draw_phrase(name)
            value = chosen[name + number]
            return value[0].upper() + value[1:] if slot[1][0].isupper() else value

        return _SLOT.sub(fill_slot, phrase)

    def _draw_phrase(self, name: str) -> str:
        drawn = self._fill(self._decks[SHORT.get(name, name)].draw())
        return drawn.partition(", ")[0] if name in SHORT else drawn


def _make_conversation(number: int, user: Mapping[str, Any], banks: Mapping[str, Any]) -> Conversation:
    chance = random.Random(number)
    details = {at: (way, subject, *words) for way, rows in user["details"].items() for at, subject, *words in rows}
    common = _make_decks(banks["common"], chance)
    subjects = {name: common | _make_decks(banks["subjects"][name], chance) for name in user["subjects"]}
    any_subject = _Deck(user["subjects"], chance)
    sessions: list[Session] = []
    evidence: dict[int, str] = {}
    for place in range(1, SESSIONS + 1):
        way, subject, *words = details.get(place) or ("", any_subject.draw())
        decks = subjects[subject]
        thing = words.pop(0) if way == "advised" else decks["thing"].draw()
        talk = _Talk(decks | _make_decks({"thing": [thing]}, chance))
        texts, telling = _make_texts(talk, (way, *words), chance)
        sessions.append(_make_session(place, texts, chance))
        evidence[place] = sessions[-1].turns[telling].id
    questions = (
        Question(text, answer, kind, tuple(evidence[place] for place in places))
        for kind, asked in user["questions"].items()
        for text, answer, places in asked
    )
    return Conversation(f"chats-{number:02}", tuple(sessions), tuple(questions))


def _make_decks(bank: Bank, chance: random.Random) -> dict[str, _Deck]:
    return {name: _Deck(phrases, chance) for name, phrases in bank.items()}


def _make_texts(talk: _Talk, detail: Detail, chance: random.Random) -> tuple[list[str], int]:
    """What is said in turn, with the detail somewhere in it; and which of the texts tells it."""
    exchanges = [talk.begin(), *(talk.go_on() for _ in range(chance.choice(EXCHANGES) - 1))]
    place = chance.randrange(len(exchanges) - 1)
    exchange, then = exchanges[place : place + 2]
    telling = 2 * place
    match detail:
        case ("mentioned", said):
            exchange[0] = _insert_sentence(exchange[0], said, chance)
        case ("answered", said, asked, answer):
            exchange[0] += f" {said}"
            exchange[1] += f"\n\n{asked}"
            then[0] = f"{answer} {then[0]}"
            telling += 2
        case ("advised", asked, told):
            exchange[:] = asked, _insert_paragraph(talk.begin()[1], told, chance)
            telling += 1
    return [text for exchange in exchanges for text in exchange], telling


def _insert_sentence(text: str, sentence: str, chance: random.Random) -> str:
    """The sentence goes anywhere, except between a pasted text and what announces it."""
    own, gap, pasted = text.partition("\n\n")
    sentences = _END_OF_SENTENCE.split(own)
    sentences.insert(0 if gap else chance.randint(0, len(sentences)), sentence)
    return " ".join(sentences) + gap + pasted


def _insert_paragraph(text: str, paragraph: str, chance: random.Random) -> str:
    """The paragraph goes anywhere after the first, except between a list and what announces it."""
    paragraphs = text.split("\n\n")
    free = [place for place, before in enumerate(paragraphs, 1) if not before.endswith(":")]
    paragraphs.insert(chance.choice(free), paragraph)
    return "\n\n".join(paragraphs)


def _make_session(number: int, texts: Sequence[str], chance: random.Random) -> Session:
    month, week = divmod(number - 1, A_MONTH)
    day = 1 + 7 * week + chance.randrange(7)
    at = datetime(YEAR, month + 1, day, chance.randrange(7, 22), chance.randrange(60), tzinfo=UTC)
    turns = []
    for place, text in enumerate(texts):
        author, role = ("assistant", "model") if place % 2 else ("user", "user")
        at += timedelta(seconds=chance.randrange(5, 20) if place % 2 else chance.randrange(40, 300))
        turns.append(Turn(f"s{number:02}-{place + 1}", author, text, at, role))
    return Session(f"s{number:02}", tuple(turns))
