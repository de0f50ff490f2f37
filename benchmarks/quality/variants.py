"""Store a conversation of two people as applications would that know them by role or by another name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from benchmarks.quality.dialogue import Conversation, Turn

UNSEEN = ("Quillon", "Tamsin", "Ferelith", "Ozias", "Brannoc", "Isaura", "Leocadia", "Thaddeus", "Wenzel", "Zenobia")
"""Names that no tokeniser keeps whole and no list of first names starts with."""


def reduce_authors(conversation: Conversation) -> Conversation:
    """The authors are ``user`` and ``assistant`` only: who they are stands where the text says it, or nowhere."""
    first, *_ = list_authors(conversation)
    return _change_turns(conversation, lambda turn: _set_role(turn, is_user=turn.author == first))


def rename_speakers(conversation: Conversation, number: int) -> Conversation:
    """The speakers have other names: as authors, in what is said, and in the questions."""
    chosen = {name: UNSEEN[(2 * number + i) % len(UNSEEN)] for i, name in enumerate(list_authors(conversation))}
    # Friends shorten a name: whoever is called Mel was Melanie, and is not called so any more.
    short = {name[:size]: new for name, new in chosen.items() for size in range(3, len(name))}

    def rename_text(text: str) -> str:
        return _replace_names(text, short | chosen)

    renamed = _change_turns(
        conversation, lambda turn: replace(turn, author=chosen[turn.author], text=rename_text(turn.text))
    )
    questions = tuple(replace(question, text=rename_text(question.text)) for question in conversation.questions)
    return replace(renamed, questions=questions)


def list_authors(conversation: Conversation) -> list[str]:
    """Who speaks, in the order of their first turns."""
    return list(dict.fromkeys(turn.author for session in conversation.sessions for turn in session.turns))


def _set_role(turn: Turn, *, is_user: bool) -> Turn:
    author, role = ("user", "user") if is_user else ("assistant", "model")
    return replace(turn, author=author, role=role)


def _replace_names(text: str, names: Mapping[str, str]) -> str:
    ways = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"\b(?:{ways})\b", lambda match: names[match[0]], text)


def _change_turns(conversation: Conversation, change: Callable[[Turn], Turn]) -> Conversation:
    sessions = (replace(session, turns=tuple(map(change, session.turns))) for session in conversation.sessions)
    return replace(conversation, sessions=tuple(sessions))
