"""Read an XQuAD file: its paragraphs as one user's turns, and the questions about them.

XQuAD (Artetxe et al., 2020, google-deepmind/xquad) is licensed CC BY-SA 4.0: it is read where it lies, never copied.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.quality.dialogue import Conversation, Question, Session, Turn

_FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def load(path: Path | str, *, left_out: int = 0) -> Conversation:
    """The file's language as one user: a paragraph is a turn, an article a session a day.

    Args:
        path: the file.
        left_out: of this many paragraphs the last is not told, and nothing answers the questions about it.
    """
    path = Path(path)
    sessions, questions = [], []
    for day, article in enumerate(json.loads(path.read_text("utf-8"))["data"]):
        turns = []
        for place, paragraph in enumerate(article["paragraphs"]):
            turn = Turn(f"{day}-{place}", "user", paragraph["context"], _FIRST + timedelta(days=day, minutes=place))
            is_told = not left_out or (place + 1) % left_out != 0
            turns += [turn] * is_told
            questions += [_make_question(row, turn if is_told else None) for row in paragraph["qas"]]
        sessions.append(Session(f"article-{day}", tuple(turns)))
    return Conversation(path.stem, tuple(sessions), tuple(questions))


def _make_question(row: dict[str, Any], turn: Turn | None) -> Question:
    if turn is None:
        return Question(row["question"], "", "unanswerable", ())
    return Question(row["question"], row["answers"][0]["text"], "paragraph", (turn.id,))
