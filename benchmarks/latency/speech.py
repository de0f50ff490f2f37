"""Make a conversation as real ones look, from a seed: words, state deltas and calls of a tool.

The sentences are a bigram chain over the demo's conversation, so words are as frequent as in English, with made-up
names between them, so that there are as many rare words as in the talk of many people.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from functools import cache
from importlib import resources

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

SHORTEST, LONGEST = 20, 60
_SYLLABLES = (
    "ba",
    "de",
    "fi",
    "go",
    "lu",
    "ma",
    "ne",
    "po",
    "ri",
    "sa",
    "tu",
    "vel",
    "kor",
    "mir",
    "nos",
    "tal",
    "zar",
)


class Speaker:
    """Two people's talk, the same for the same seed.

    Args:
        seed: also names the acquaintances they speak of.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = ["".join(self._random.choices(_SYLLABLES, k=3)).capitalize() for _ in range(20)]

    def make_events(self, count: int) -> list[Event]:
        """Events of 20 to 60 words, the user's and the agent's in turn; a fifth call a tool, a quarter change state."""
        start = time.time()
        return [self._make_event(number, start + number / 1_000) for number in range(count)]

    def make_question(self, number: int) -> str:
        """What somebody might ask about it, another one for each number."""
        self._random.seed(number)
        words = [word.strip(".,?!;:\"'()") for word in self._make_sentence()]
        return f"What did I say about {self._random.choice(self._names)} and {' '.join(words[:6])}?"

    def _make_event(self, number: int, at: float) -> Event:
        author = "user" if number % 2 == 0 else "assistant"
        parts = [types.Part(text=self._make_text())]
        if number % 5 == 3:
            call = {"query": self._random.choice(self._names), "limit": 5, "exact": False}
            parts.append(types.Part.from_function_call(name="look_up", args=call))
        delta = {"turn": number, f"topic_{number % 3}": self._random.choice(self._names)} if number % 4 == 1 else {}
        return Event(
            author=author,
            invocation_id=f"invocation-{number // 2}",
            timestamp=at,
            content=types.Content(role="user" if author == "user" else "model", parts=parts),
            actions=EventActions(state_delta=delta),
        )

    def _make_text(self) -> str:
        length, words = self._random.randint(SHORTEST, LONGEST - 10), list[str]()
        while len(words) < length:
            words += self._make_sentence()
        words.insert(self._random.randrange(1, length), self._random.choice(self._names))
        return " ".join(words[:LONGEST])

    def _make_sentence(self) -> list[str]:
        starts, following = _build_chain()
        words = [self._random.choice(starts)]
        while words[-1][-1] not in ".?!" and len(words) < 25:
            words.append(self._random.choice(following[words[-1]]))
        return words


def copy_events(events: list[Event]) -> list[Event]:
    """The same events as fresh objects, for a service of its own."""
    return [event.model_copy(deep=True) for event in events]


@cache
def _build_chain() -> tuple[list[str], dict[str, list[str]]]:
    """Words that open a sentence, and for each word those that follow it."""
    conversation = json.loads((resources.files("adk_graph_memory.cli.demo") / "conversation.json").read_text("utf-8"))
    starts: list[str] = []
    following: defaultdict[str, list[str]] = defaultdict(list)
    for session in conversation["sessions"]:
        for turn in session["turns"]:
            words = turn["text"].split()
            starts.append(words[0])
            for word, then in zip(words, [*words[1:], words[0]], strict=True):
                following[word].append(then)
    return starts, dict(following)
