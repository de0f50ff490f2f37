"""Conversations whose changes are known go in; a scripted model that reads just these comes out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from google.adk.models.llm_request import LlmRequest

from adk_graph_memory import prompts
from adk_graph_memory.testing import ScriptedLlm
from benchmarks.quality.dialogue import Conversation

CALLS = 10_000


def predicate(number: int) -> str:
    """What the statements on one of a conversation's changes are called; there is one value of it at a time."""
    return f"changing_{number}"


def reader(conversations: Sequence[Conversation]) -> ScriptedLlm:
    """Reads of each statement that a question is about whose it is, in its words, and what it is a value of."""
    about: dict[tuple[str, str], str] = {}
    for conversation in conversations:
        texts = {turn.id: (turn.author, turn.text) for session in conversation.sessions for turn in session.turns}
        changes = [question for question in conversation.questions if question.outdated]
        for number, question in enumerate(changes):
            for id in (*question.evidence, *question.outdated):
                about[texts[id]] = predicate(number)

    def answer(request: LlmRequest) -> str:
        [prompt] = (part.text or "" for part in request.contents[0].parts or ())
        if "<conversation>" not in prompt:
            return json.dumps({"ops": [], "depends": [], "same": []})
        turns = [line for line in prompts.lines(prompt, "conversation") if "turn" in line]
        authors = list(dict.fromkeys(turn["author"] for turn in turns))
        facts = [_fact(turn, authors, about) for turn in turns if (turn["author"], turn["text"]) in about]
        people = [{"ref": ref, "name": name, "type": "person"} for ref, name in enumerate(authors)]
        return json.dumps({"entities": people, "facts": facts})

    return ScriptedLlm.of(*[answer] * CALLS)


def _fact(turn: dict[str, Any], authors: list[str], about: dict[tuple[str, str], str]) -> dict[str, Any]:
    return {
        "subject": authors.index(turn["author"]),
        "predicate": about[turn["author"], turn["text"]],
        "text": f"{turn['author']}: {turn['text']}",
        "quote": turn["text"],
        "turns": [turn["turn"]],
        "speaker": turn["author"],
    }
