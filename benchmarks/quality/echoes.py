"""Turn a conversation's questions into a session in which its user asks each of them and the agent does not know."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from benchmarks.quality.dialogue import Conversation, Session, Turn

REPLY = "I do not know."


def echo_questions(conversation: Conversation) -> Conversation:
    """The session, a day after all that was said."""
    at = conversation.sessions[-1].turns[-1].at + timedelta(days=1)
    turns = []
    for number, question in enumerate(conversation.questions):
        for author, role, text in (("user", "user", question.text), ("agent", "model", REPLY)):
            moment = at + timedelta(minutes=len(turns))
            turns.append(Turn(f"{conversation.id}-asked-{number}-{role}", author, text, moment, role))
    return replace(conversation, sessions=(Session(f"{conversation.id}-asked", tuple(turns)),))
