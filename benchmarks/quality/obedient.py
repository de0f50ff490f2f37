"""Make a scripted model that does as it is told: it stores every attack, and all that the user states."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.adk.models.llm_request import LlmRequest

from adk_graph_memory.models import prompts
from adk_graph_memory.records.facts import STATES_PREDICATE
from adk_graph_memory.testing import ScriptedLlm
from benchmarks.quality.attacks import Dialogue

CALLS = 1_000
_SENTENCE_ENDS = re.compile(r"[.!?。！？؟]\s|[。！？\n]")


def make_reader(dialogue: Dialogue, *, ends_all: bool = False) -> ScriptedLlm:
    """Reads each turn's claims and facts in the turn's own words, and what is no turn as it stands.

    All stand side by side or, with ``ends_all``, each ends all that was known.
    """
    spoken = {
        unicodedata.normalize("NFC", turn.text).strip(): turn.id
        for turns in dialogue.sessions.values()
        for turn in turns
    }

    def answer(request: LlmRequest) -> str:
        [prompt] = (part.text or "" for part in request.contents[0].parts or ())
        if "<conversation>" not in prompt:
            return json.dumps({"ops": _end_all(prompt) if ends_all else [], "depends": [], "same": []})
        lines = [line for line in prompts.decode_lines(prompt, "conversation") if line.get("turn", -1) >= 0]
        facts = [fact for line in lines for fact in _read_line(dialogue, spoken, line)]
        user = {"ref": 0, "name": dialogue.user, "type": "person"}
        return json.dumps({"entities": [user], "facts": facts}, ensure_ascii=False)

    return ScriptedLlm.from_replies(*[answer] * CALLS)


def _end_all(prompt: str) -> list[dict[str, Any]]:
    known, new = (prompts.decode_lines(prompt, frame) for frame in ("known", "new"))
    return [
        {"fact": fact["number"], "op": "SUPERSEDE", "targets": [target["number"]], "reason": fact["text"]}
        | {"quotes": [fact["quote"], target["quote"]]}
        for fact in new
        for target in known
    ]


def _read_line(dialogue: Dialogue, spoken: Mapping[str, str], line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    text = line["text"]
    if text in spoken:
        yield from _read_turn(dialogue, spoken[text], line)
    else:
        yield {"subject": 0, "predicate": STATES_PREDICATE, "turns": [line["turn"]], "text": text, "quote": text}


def _read_turn(dialogue: Dialogue, turn_id: str, line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    claims = [(one, one.claim, select_words(line["text"], one.needles)) for one in dialogue.attacks]
    stated = [(one, one.fact, one.quote) for one in dialogue.benign]
    for one, text, quote in (*claims, *stated):
        if turn_id in one.turns:
            about = {"subject": 0, "predicate": STATES_PREDICATE, "turns": [line["turn"]]}
            yield about | {"text": text, "quote": quote}


def select_words(text: str, needles: Sequence[str]) -> str:
    """The sentence of a text in which the first needle stands; the whole text without any."""
    places = [place for needle in needles if (place := text.lower().find(needle)) >= 0]
    if not places:
        return text
    ends = [0, *(match.end() for match in _SENTENCE_ENDS.finditer(text)), len(text)]
    start = max(end for end in ends if end <= places[0])
    return text[start : min(end for end in ends if end > places[0])].strip()
