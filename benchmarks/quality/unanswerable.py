"""Make ten lives of the sentences in ``unanswerable.json``, with questions on what was said and what was not.

What was not said is known, because it was kept back: of every topic some facts are not told, whole topics are left
out, and there are names and relatives whom nobody mentions.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.quality.dialogue import Conversation, Question
from benchmarks.quality.updates import Exchange, Talk

PATH = Path(__file__).with_suffix(".json")
LIVES, SESSIONS = 10, 20
OTHERS, OWN, TOLD = 5, 7, 3
"""Of each life: topics about other people, about the speaker alone, and how many facts of each topic are told."""
ANSWERABLE, OF_EACH_SORT = 27, 9
"""Questions on each life: with an answer, and of each of the three sorts that have none."""


@dataclass(frozen=True, slots=True)
class Person:
    """Whom one of the speakers tells about."""

    kin: str = ""
    name: str = ""
    pronouns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Topic:
    """What one speaker tells about a person or, without one, about their own life; only the first facts are told."""

    name: str
    speaker: int
    person: Person
    facts: Sequence[Mapping[str, Any]]
    never: Sequence[str] = ()
    talk: Sequence[Sequence[str]] = ()
    kin: Sequence[str] = ()


def load() -> list[Conversation]:
    """The ten conversations, always the same; in every other one two friends chat."""
    bank = json.loads(PATH.read_text("utf-8"))
    return [_Life(number, bank).make_conversation() for number in range(LIVES)]


class _Life:
    """What is told in one conversation, and what is kept back."""

    def __init__(self, number: int, bank: Mapping[str, Any]) -> None:
        self._bank, self._chance = bank, random.Random(number)
        friends = bank["pairs"][number // 2] if number % 2 else []
        self._talk = Talk(f"unanswerable-{number + 1:02}", friends, bank, SESSIONS, self._chance)
        own = self._chance.sample(bank["own"], len(bank["own"]))
        self._own, self._left_out = (
            [self._make_topic(one) for one in own[:OWN]],
            [self._make_topic(one) for one in own[OWN:]],
        )
        self._others = list[Topic]()
        for one in self._chance.sample(bank["people"], OTHERS):
            self._others.append(self._make_topic(one, self._invent_stranger(one["kin"])))

    def make_conversation(self) -> Conversation:
        """Everything that is told, with all questions."""
        topics = [*self._others, *self._own]
        answerable = [question for topic in topics for question in self._tell_topic(topic)]
        strange = self._chance.sample([*self._ask_of_other_friend(), *self._ask_of_strangers()], OF_EACH_SORT)
        unanswerable = [*self._ask_kept_back(topics), *self._ask_left_out(), *strange]
        questions = [Question(text, "", "unanswerable", ()) for text in unanswerable]
        return self._talk.make_conversation([*self._chance.sample(answerable, ANSWERABLE), *questions])

    def _make_topic(self, kind: Mapping[str, Any], person: Person = Person()) -> Topic:
        speaker = self._chance.randrange(2) if self._talk.friends else 0
        facts = self._chance.sample(kind["facts"], len(kind["facts"]))
        return Topic(kind["topic"], speaker, person, facts, kind["never"], kind["talk"], kind.get("kin", ()))

    def _invent_stranger(self, kin: Iterable[str]) -> Person:
        """Somebody of whom neither the name nor such a relative has been mentioned."""
        known = [topic.person for topic in self._others]
        relative = self._chance.choice([one for one in kin if one not in {person.kin for person in known}])
        gender = self._bank["kin"][relative]
        names = [name for name in self._bank["names"][gender] if name not in {person.name for person in known}]
        return Person(relative, self._chance.choice(names), self._bank["pronouns"][gender])

    def _tell_topic(self, topic: Topic) -> list[Question]:
        """Tells the first facts of the topic, each in a session of its own, and asks for them."""
        person, exchanges, questions = topic.person, list[Exchange](), list[Question]()
        lines = self._chance.sample([*topic.talk, [], []], TOLD)
        for fact, more in zip(topic.facts[:TOLD], lines, strict=True):
            value, key = self._chance.choice(fact["values"]), f"{topic.name} {len(exchanges)}"
            slots = {"value": value, "person": f"my {person.kin} {person.name}", **person.pronouns}
            statement = self._chance.choice(fact["say"]).format_map(slots)
            exchanges.append(self._talk.exchange(topic.speaker, statement, key, more))
            question = self._ask(topic.speaker, self._chance.choice(fact["ask"]), person)
            questions.append(Question(question, value, "answerable", (key,)))
        self._talk.add(*exchanges)
        return questions

    def _ask_kept_back(self, topics: Iterable[Topic]) -> list[str]:
        """About what is known of, but not so closely."""
        texts = [(topic, text) for topic in topics for text in topic.never]
        texts += [(topic, self._chance.choice(fact["ask"])) for topic in topics for fact in topic.facts[TOLD:]]
        chosen = self._chance.sample(texts, OF_EACH_SORT)
        return [self._ask(topic.speaker, text, topic.person) for topic, text in chosen]

    def _ask_left_out(self) -> list[str]:
        """About subjects that nobody touched."""
        chosen = self._chance.sample(self._left_out, OF_EACH_SORT)
        return [self._ask(topic.speaker, self._chance.choice(topic.facts[0]["ask"]), topic.person) for topic in chosen]

    def _ask_of_strangers(self) -> Iterator[str]:
        """The same as of those who were mentioned, about somebody who was not."""
        for topic in self._others:
            for fact in self._chance.sample(topic.facts, 2):
                yield self._ask(topic.speaker, self._chance.choice(fact["ask"]), self._invent_stranger(topic.kin))

    def _ask_of_other_friend(self) -> Iterator[str]:
        """What one of two friends told of themselves, asked about the other."""
        for topic in self._own if self._talk.friends else ():
            yield self._ask(1 - topic.speaker, self._chance.choice(topic.facts[0]["ask"]), topic.person)

    def _ask(self, speaker: int, text: str, person: Person) -> str:
        """The person is called by the relation, by name, or by both."""
        relative = f"{self._talk.ask(speaker, '{whose}')} {person.kin}"
        called = self._chance.choice((relative, person.name, f"{relative} {person.name}"))
        return self._talk.ask(speaker, text, person=called, **person.pronouns)
