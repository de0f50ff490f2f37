"""Make a scripted model that reads just the changes that a conversation is known to have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from google.adk.models.llm_request import LlmRequest

from adk_graph_memory.models import prompts
from adk_graph_memory.testing import ScriptedLlm
from benchmarks.quality.dialogue import Conversation

CALLS = 10_000
CORRECTED = (1, 5, 9)
"""Which changes of a conversation are read as corrections: what was said before was never so."""


def name_predicate(number: int) -> str:
    """What the statements on one of a conversation's changes are called; there is one value of it at a time."""
    return f"changing_{number}"


def make_reader(conversations: Sequence[Conversation]) -> ScriptedLlm:
    """Reads of each statement that a question is about whose it is, in its words, and what it is a value of.

    Some are read as corrections of what was said before.
    """
    about: dict[tuple[str, str], dict[str, Any]] = {}
    fresh = count()
    for conversation in conversations:
        texts = {turn.id: (turn.author, turn.text) for session in conversation.sessions for turn in session.turns}
        changes = [question for question in conversation.questions if question.outdated]
        for number, question in enumerate(changes):
            said = [texts[id] for id in (*question.outdated, *question.evidence)]
            known = [about[one]["predicate"] for one in said if one in about]  # others may have said the same
            named = known[0] if known else name_predicate(next(fresh))
            for one in about.values():
                one["predicate"] = named if one["predicate"] in known else one["predicate"]
            for one in said:
                is_correction = number in CORRECTED and one == said[-1]
                about[one] = {"predicate": named, "correction": is_correction}

    def answer(request: LlmRequest) -> str:
        [prompt] = (part.text or "" for part in request.contents[0].parts or ())
        if "<conversation>" not in prompt:
            return json.dumps({"ops": [], "depends": [], "same": []})
        turns = [line for line in prompts.decode_lines(prompt, "conversation") if line.get("turn", -1) >= 0]
        authors = list(dict.fromkeys(turn["author"] for turn in turns))
        facts = [_make_fact(turn, authors, about) for turn in turns if (turn["author"], turn["text"]) in about]
        people = [{"ref": ref, "name": name, "type": "person"} for ref, name in enumerate(authors)]
        return json.dumps({"entities": people, "facts": facts})

    return ScriptedLlm.from_replies(*[answer] * CALLS)


def _make_fact(
    turn: dict[str, Any], authors: list[str], about: dict[tuple[str, str], dict[str, Any]]
) -> dict[str, Any]:
    return {
        "subject": authors.index(turn["author"]),
        **about[turn["author"], turn["text"]],
        "text": f"{turn['author']}: {turn['text']}",
        "quote": turn["text"],
        "turns": [turn["turn"]],
        "speaker": turn["author"],
    }
