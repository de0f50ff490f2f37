"""The path of an XQuAD file goes in; its paragraphs come out as one user's turns, with the questions about them.

XQuAD (Artetxe et al., 2020, google-deepmind/xquad) is licensed CC BY-SA 4.0: it is read where it lies, never copied.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.quality.dialogue import Conversation, Question, Session, Turn

_FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def load(path: Path | str) -> Conversation:
    """The file's language as one user: a paragraph is a turn, an article a session a day."""
    path = Path(path)
    sessions, questions = [], []
    for day, article in enumerate(json.loads(path.read_text("utf-8"))["data"]):
        turns = []
        for place, paragraph in enumerate(article["paragraphs"]):
            turn = Turn(f"{day}-{place}", "user", paragraph["context"], _FIRST + timedelta(days=day, minutes=place))
            turns.append(turn)
            questions += [_question(asked["question"], asked["answers"], turn) for asked in paragraph["qas"]]
        sessions.append(Session(f"article-{day}", tuple(turns)))
    return Conversation(path.stem, tuple(sessions), tuple(questions))


def _question(text: str, answers: list[dict[str, str]], turn: Turn) -> Question:
    return Question(text, answers[0]["text"], "paragraph", (turn.id,))
