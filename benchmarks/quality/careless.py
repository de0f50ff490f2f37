"""Give recorded replies with one perturbation each, to the conversation that they were recorded of."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from pydantic import PrivateAttr

from adk_graph_memory import Turn
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.cli.demo.recorded_replies import RecordedLlm
from adk_graph_memory.language.text import digest
from adk_graph_memory.models import prompts
from adk_graph_memory.testing import ScriptedLlm, make_text_response
from benchmarks.quality import replies
from benchmarks.quality.perturbations import NumberedItems, Perturbation, Reply

SCRIPTS = Path(__file__).with_name("scripts.json")
FIRST = datetime(2025, 3, 3, 9, tzinfo=UTC)
SESSION = 5
"""Turns of a session in many scripts."""
MOST_CALLS = 1_000


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation, and how a model read and judged it."""

    name: str
    sessions: Mapping[str, Sequence[Turn]]
    readings: Sequence[Reply]
    """replies to the first prompt, with the name of a known entity for its number"""
    model: Callable[[], BaseLlm]

    def perturb_readings(self, perturbation: Perturbation) -> Iterable[tuple[Reply, Reply]]:
        """Each fact of the replies and what the perturbation makes of it."""
        for reply in self.readings:
            read = _perturb(perturbation, {**reply, "entities": []}, NumberedItems({}, {}, {}))
            yield from zip(reply["facts"], read["facts"], strict=False)


def load_case(name: str) -> Case:
    """A conversation with recorded replies."""
    talk = replies.load_conversation(name)
    sessions = {session.id: memory_codec.make_turns(session.make_events(), zone=talk.zone) for session in talk.sessions}
    recording = replies.load_recording(name)
    readings = [_complete(reply) for reply in recording.extractions.values()]
    return Case(name, sessions, readings, lambda: RecordedLlm.from_recording(recording))


def make_script_case() -> Case:
    """Short statements in scripts that no recording is written in, each a fact."""
    scripts = json.loads(SCRIPTS.read_text("utf-8"))
    turns = [
        Turn(f"scripts-{n}", "user", script["turn"], FIRST + timedelta(hours=n)) for n, script in enumerate(scripts)
    ]
    sessions = {f"scripts-{n}": turns[n : n + SESSION] for n in range(0, len(turns), SESSION)}
    quotes = {script["turn"]: script["quote"] for script in scripts}
    readings = {part[0].text: _iterate_statements([turn.text for turn in part], quotes) for part in sessions.values()}

    def answer(request: LlmRequest) -> str:
        [prompt] = (part.text or "" for part in request.contents[0].parts or ())
        if "<conversation>" not in prompt:
            return json.dumps({"ops": [], "depends": [], "same": []})
        first = next(line["text"] for line in prompts.decode_lines(prompt, "conversation") if line.get("turn", -1) >= 0)
        return json.dumps(readings[first])

    return Case("scripts", sessions, list(readings.values()), lambda: ScriptedLlm.from_replies(*[answer] * MOST_CALLS))


def _iterate_statements(texts: Sequence[str], quotes: Mapping[str, str]) -> Reply:
    user = {"ref": 1, "name": "user", "type": "person", "aliases": [], "known_id": None}
    facts = [
        {"ref": n, "subject": 1, "predicate": f"states_{n}", "object": None, "text": text, "quote": quotes[text]}
        for n, text in enumerate(texts)
    ]
    return {"entities": [user], "facts": [{**fact, "turns": [n]} for n, fact in enumerate(facts)]}


class CarelessLlm(BaseLlm):
    """A model that gives the replies of another, perturbed the same way each time."""

    model: str = "careless"
    _careful: BaseLlm = PrivateAttr()
    _perturbation: Perturbation = PrivateAttr()
    _meant: dict[str, str] = PrivateAttr()

    @classmethod
    def perturb_case(cls, case: Case, perturbation: Perturbation) -> CarelessLlm:
        """A model that perturbs the replies of this case.

        Whom a name in doubt means it answers as the readings say: only what is under test is wrong.
        """
        model = cls()
        model._careful, model._perturbation = case.model(), perturbation
        read = (entity for reply in case.readings for entity in reply["entities"])
        model._meant = {entity["name"]: entity["known_id"] for entity in read if entity.get("known_id")}
        return model

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        [prompt] = (part.text or "" for part in llm_request.contents[0].parts or ())
        async for response in self._careful.generate_content_async(llm_request, stream):
            [text] = (part.text or "" for part in (response.content and response.content.parts) or ())
            yield make_text_response(json.dumps(self._perturb_reply(prompt, json.loads(text)), ensure_ascii=False))

    def _perturb_reply(self, prompt: str, reply: Reply) -> Reply:
        if "<conversation>" in prompt:
            return _perturb(self._perturbation, _complete(reply), NumberedItems(parse_known_entities(prompt), {}, {}))
        known, new = (sorted(prompts.decode_lines(prompt, frame), key=_extract_text) for frame in ("known", "new"))
        chance = random.Random(digest(self._perturbation.name, *map(_extract_text, new)))
        quotes = ({line["number"]: line["quote"] for line in part} for part in (known, new))
        same = answer_doubts(prompt, self._name_known)
        return self._perturbation.judge({**reply, "same": same}, NumberedItems({}, *quotes), chance)

    def _name_known(self, names: Sequence[str]) -> str | None:
        """Under what name somebody of these names is known."""
        return next((self._meant[name] for name in names if name in self._meant), None)


def _complete(reply: Reply) -> Reply:
    """The reply with what it left out because it is empty."""
    entities = [{"aliases": [], **entity} for entity in reply.get("entities", ())]
    return {**reply, "entities": entities, "facts": [{"object": None, **fact} for fact in reply.get("facts", ())]}


def _perturb(perturbation: Perturbation, reply: Reply, shown: NumberedItems) -> Reply:
    """The perturbed reading; chance goes by what is read."""
    chance = random.Random(digest(perturbation.name, *(fact["text"] for fact in reply["facts"])))
    return perturbation.read(reply, shown, chance)


def _extract_text(line: Mapping[str, Any]) -> str:
    """What a fact's line says; numbers are another user's another time."""
    return str(line["text"])


def parse_known_entities(prompt: str) -> dict[int, tuple[str, str]]:
    """Name and kind of the known entities that a prompt lists, by their numbers."""
    listed = ((int(number), json.loads(line)) for number, line in re.findall(r"^(\d+): (\{.*\})$", prompt, re.M))
    return {number: (entity["names"][0], entity["type"]) for number, entity in listed}


def answer_doubts(prompt: str, mean: Callable[[Sequence[str]], str | None]) -> list[Reply]:
    """The answers of a judge who knows whom each name in doubt means: somebody known, by a name, or nobody."""
    known, _, doubted = prompt.rpartition("\nKnown:\n")[2].partition("\nNames in doubt:\n")
    numbers = {name: entity["number"] for entity in _parse_entities(known) for name in entity["names"]}
    return [
        {"name": entity["number"], "known": numbers.get(mean(entity["names"]) or "")}
        for entity in _parse_entities(doubted)
    ]


def _parse_entities(text: str) -> list[dict[str, Any]]:
    """The entities listed, whatever follows them in their line."""
    return [json.JSONDecoder().raw_decode(line)[0] for line in text.splitlines() if line.startswith("{")]
