"""Turn the sentences of ``arabic.json`` into one user's memories, with questions on what was said and what was not.

It shows what a score means where the embedder does not know the language.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.quality.dialogue import Conversation, Question, Session, Turn

PATH = Path(__file__).with_suffix(".json")
A_SESSION = 10
_FIRST = datetime(2026, 1, 5, 9, tzinfo=UTC)


def load() -> Conversation:
    """The conversation, always the same: ten statements a session, a week apart."""
    bank = json.loads(PATH.read_text("utf-8"))
    turns = [
        Turn(f"ar-{place}", "user", said, _FIRST + timedelta(weeks=place // A_SESSION, minutes=place))
        for place, (said, _) in enumerate(bank["told"])
    ]
    sessions = [
        Session(f"ar-s{place // A_SESSION}", tuple(turns[place : place + A_SESSION]))
        for place in range(0, len(turns), A_SESSION)
    ]
    asked = [Question(question, "", "answerable", (f"ar-{place}",)) for place, (_, question) in enumerate(bank["told"])]
    never = [Question(question, "", "unanswerable", ()) for question in bank["never"]]
    return Conversation("arabic", tuple(sessions), (*asked, *never))
