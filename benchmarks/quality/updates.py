"""Make a year of talk of twenty people of the sentences in ``updates.json``, with questions on what changed.

Half of the changes are told as changes, the other half only by the value that holds from then on; in a quarter of
them the outdated words are closer to the question's than the current ones.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

from benchmarks.quality.dialogue import Conversation, Question, Session, Turn

PATH = Path(__file__).with_suffix(".json")
PEOPLE, SESSIONS, LONGEST = 20, 16, 10
UPDATES, TWICE, BEFORE = 13, 2, 2
"""Of each person: how many things change, how many of them twice, and of how many the past is asked."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What the first or the second speaker says; by its key, if it has one, its turn is found again."""

    speaker: int
    text: str
    key: str = ""


Exchange = list[Utterance]


class Talk:
    """A year of sessions of two friends with these names, or without names of a user with an assistant."""

    def __init__(
        self, id: str, friends: Sequence[str], bank: Mapping[str, Any], sessions: int, chance: random.Random
    ) -> None:
        self.id, self.friends, self._chance = id, friends, chance
        style = "friends" if friends else "assistant"
        self._bank = {part: said[style] for part, said in bank.items() if isinstance(said, dict) and style in said}
        self._speakers = [(name, "user") for name in friends] or [("user", "user"), ("assistant", "model")]
        self._chats = chance.sample(self._bank["chat"], len(self._bank["chat"]))
        self._slots, self._lengths = bank["slots"], bank["lengths"]
        self._plan: list[list[Exchange]] = [[] for _ in range(sessions)]

    def exchange(self, speaker: int, text: str, key: str = "", more: Iterable[str] = (), end: str = "ack") -> Exchange:
        """The text and an answer to it; ``more`` is said in between."""
        text, frame = text[0].upper() + text[1:], self._chance.random()
        if frame < 0.35:
            text = f"{self._choose('opener')} {text}" if frame < 0.2 else f"{text} {self._choose('aside')}"
        lines = [text, *more, self._choose(end)]
        return [Utterance((speaker + i) % 2, line, "" if i else key) for i, line in enumerate(lines)]

    def add(self, *exchanges: Exchange) -> None:
        """Each goes to another session, in this order; every session keeps room for small talk."""
        room = LONGEST - 2 - max(map(len, exchanges))
        free = [session for session in self._plan if sum(map(len, session)) <= room]
        places = sorted(self._chance.sample(range(len(free)), len(exchanges)))
        for place, exchange in zip(places, exchanges, strict=True):
            free[place].append(exchange)

    def ask(self, speaker: int, text: str, **values: str) -> str:
        """The question as a user would ask it of themselves, or somebody else of one of two friends."""
        name = self.friends[speaker] if self.friends else ""
        return text.format_map({word: form.format(name) for word, form in self._bank["grammar"].items()} | values)

    def make_conversation(self, questions: Iterable[Question]) -> Conversation:
        """All that was said, and the questions, which come with keys and leave with the ids of their turns."""
        sessions, ids = list[Session](), dict[str, str]()
        gap, at = 365 // len(self._plan), datetime(2023, self._chance.randint(1, 12), 1, tzinfo=UTC)
        for number, exchanges in enumerate(self._plan, 1):
            session, turns = f"{self.id}-s{number:02}", list[Turn]()
            at = at.replace(hour=self._chance.randint(7, 21), minute=self._chance.randint(0, 59))
            for line in self._fill_session(exchanges):
                author, role = self._speakers[line.speaker]
                turns.append(Turn(f"{session}-t{len(turns) + 1:02}", author, line.text, at, role))
                ids[line.key] = turns[-1].id
                at += timedelta(seconds=self._chance.randint(15, 150))
            sessions.append(Session(session, tuple(turns)))
            at += timedelta(days=self._chance.randint(gap - 7, gap + 7))

        def list_turn_ids(keys: Iterable[str]) -> tuple[str, ...]:
            return tuple(ids[key] for key in keys)

        questions_with_evidence = [
            replace(question, evidence=list_turn_ids(question.evidence), outdated=list_turn_ids(question.outdated))
            for question in questions
        ]
        return Conversation(self.id, tuple(sessions), tuple(questions_with_evidence))

    def _choose(self, part: str) -> str:
        return str(self._chance.choice(self._bank[part]))

    def _fill_session(self, exchanges: Sequence[Exchange]) -> list[Utterance]:
        """One session: the exchanges in any order with small talk between them, and at times a greeting."""
        length, filled = self._chance.choice(self._lengths), list(exchanges)
        while sum(map(len, filled)) < length:
            filled.append(self._make_small_talk(LONGEST - sum(map(len, filled))))
        self._chance.shuffle(filled)
        said = [line for exchange in filled for line in exchange]
        if self._chance.random() < 0.4:
            said[0] = Utterance(said[0].speaker, f"{self._choose('hello')} {said[0].text}", said[0].key)
        return said

    def _make_small_talk(self, room: int) -> Exchange:
        chat = next(chat for chat in self._chats if len(chat) <= room)
        self._chats.remove(chat)
        slots = {name: self._chance.choice(values) for name, values in self._slots.items()}
        first = self._chance.randrange(2) if self.friends else 0
        return [Utterance((first + i) % 2, line.format_map(slots)) for i, line in enumerate(chat)]


Change = tuple[Mapping[str, Any], tuple[str, str, str]]
"""Of what kind it is; how it was told, how it is told later, how it is asked for."""


def load() -> list[Conversation]:
    """The twenty conversations, always the same; in every third two friends chat."""
    bank = json.loads(PATH.read_text("utf-8"))
    changes = _arrange_changes(bank)
    return [_make_year(number, islice(changes, UPDATES), bank) for number in range(PEOPLE)]


def _arrange_changes(bank: Mapping[str, Any]) -> Iterator[Change]:
    """The kinds one after the other, in the wordings that were used least so far."""

    def count_shared(one: str, other: str) -> int:
        return len({*re.findall(r"\w+", one.lower())} & {*re.findall(r"\w+", other.lower())} - {*bank["common"]})

    chance, used = random.Random(0), Counter[str]()
    kinds = chance.sample(bank["kinds"], len(bank["kinds"]))
    ways = [(turn % 2 == 0, turn % 8 < 2) for turn in range(PEOPLE * UPDATES)]
    for (cue, closer), kind in zip(chance.sample(ways, len(ways)), cycle(kinds), strict=False):
        every = product(kind["was"], kind["now" if cue else "is"], kind["ask"])
        fitting = [(a, b, ask) for a, b, ask in every if (count_shared(a, ask) > count_shared(b, ask)) == closer]
        wordings = min(
            chance.sample(fitting, len(fitting)), key=lambda wordings: sum(used[wording] for wording in wordings)
        )
        used.update(wordings)
        yield kind, wordings


def _make_year(number: int, changes: Iterable[Change], bank: Mapping[str, Any]) -> Conversation:
    chance, friends = random.Random(number), [] if number % 3 else bank["pairs"][number // 3]
    talk, questions = Talk(f"updates-{number + 1:02}", friends, bank, SESSIONS, chance), list[Question]()
    for place, (kind, wordings) in enumerate(changes):
        speaker = place % 2 if friends else 0
        questions += _tell_change(kind, wordings, speaker, place, talk, chance)
        if place % 3 == 0:
            talk.add(talk.exchange(speaker, chance.choice(kind["mention"]), end="nod"))
    return talk.make_conversation(questions)


def _tell_change(
    kind: Mapping[str, Any], wordings: Sequence[str], speaker: int, place: int, talk: Talk, chance: random.Random
) -> list[Question]:
    """Tells of one thing that changes, and of the same thing of somebody else; what is asked of it."""
    was, now, ask = wordings
    other, *drawn = chance.sample(range(len(kind["values"])), 4 if place < TWICE else 3)
    values = [kind["values"][i] for i in (sorted(drawn) if "ordered" in kind else drawn)]
    keys = [f"{kind['topic']}: {value}" for value in values]
    between = [words for words in kind["now"] if words != now][: len(values) - 2]
    more = chance.sample([*kind["talk"], [], [], []], len(values))
    rows = zip([was, *between, now], values, keys, more, strict=True)
    talk.add(*(talk.exchange(speaker, words.format(value), key, lines) for words, value, key, lines in rows))
    if place % 5 < 2:
        theirs = 1 - speaker if talk.friends and place % 2 else speaker
        words = kind["other"] if theirs == speaker else chance.choice(kind["was"])
        talk.add(talk.exchange(theirs, words.format(kind["values"][other])))
    questions = [Question(talk.ask(speaker, ask), values[-1], "update", (keys[-1],), tuple(keys[:-1]))]
    if place >= UPDATES - BEFORE:
        question = talk.ask(speaker, kind["before"], now=values[-1])
        questions.append(Question(question, values[0], "before", (keys[0],)))
    return questions
