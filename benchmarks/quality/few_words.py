"""Queries of one to three words, as models send them to ``load_memory``, in five languages.

The English ones are what is left of the questions of ``chats`` without their ordinary words. For Spanish, German,
French and Portuguese ``few_words.json`` has statements, all invented, with the one or two words that ask for each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from adk_graph_memory.language.detection import WORD_PATTERN, load_stop_words
from benchmarks.quality import chats
from benchmarks.quality.dialogue import Conversation, Question, Session, Turn

PATH = Path(__file__).with_suffix(".json")
ENGLISH, ENGLISH_QUERIES = "English", 200
A_SESSION = 5
"""Statements that are made in one go."""

_FIRST = datetime(2026, 1, 5, 18, 0, tzinfo=UTC)


def load() -> list[Conversation]:
    """What everybody said, with the queries; a question's kind is its language."""
    banks = json.loads(PATH.read_text("utf-8"))
    others = [
        _make_conversation(f"few-words-{bank['language']}-{number}", name, statements)
        for name, bank in banks.items()
        for number, statements in enumerate(bank["users"], 1)
    ]
    return [*_load_chats(), *others]


def get_language(user_id: str) -> str:
    """What the user of one of these conversations speaks."""
    return user_id.split("-")[2] if user_id.startswith("few-words-") else "en"


def _load_chats() -> list[Conversation]:
    conversations = chats.load()
    queries = {
        (conversation.id, question.text): query
        for conversation, question, query in islice(_pick_keywords(conversations), ENGLISH_QUERIES)
    }
    return [
        replace(
            conversation,
            questions=tuple(
                replace(question, text=queries[key], kind=ENGLISH)
                for question in conversation.questions
                if (key := (conversation.id, question.text)) in queries
            ),
        )
        for conversation in conversations
    ]


def _pick_keywords(conversations: Sequence[Conversation]) -> Iterator[tuple[Conversation, Question, str]]:
    """Two words of every other question and three of the rest, as far as they have so many that are not ordinary."""
    pairs = [(conversation, question) for conversation in conversations for question in conversation.questions]
    for number, (conversation, question) in enumerate(pairs):
        words = [word for word in WORD_PATTERN.findall(question.text) if word.lower() not in load_stop_words("en")]
        if len(words) >= (length := 2 + number % 2):
            yield conversation, question, " ".join(words[:length]).lower()


def _make_conversation(id: str, kind: str, statements: Sequence[tuple[str, str]]) -> Conversation:
    turns = [
        Turn(f"{id}-{number}", "user", text, _FIRST + timedelta(days=number // A_SESSION, minutes=number))
        for number, (text, _) in enumerate(statements)
    ]
    sessions = [
        Session(f"{id}-s{start // A_SESSION}", tuple(turns[start : start + A_SESSION]))
        for start in range(0, len(turns), A_SESSION)
    ]
    questions = [
        Question(query, turn.text, kind, (turn.id,)) for turn, (_, query) in zip(turns, statements, strict=True)
    ]
    return Conversation(id, tuple(sessions), tuple(questions))
