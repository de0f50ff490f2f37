"""Replies that a language model once gave go in; a model that gives them again, to the same conversation, comes out.

They are kept by what they speak of and not by their numbers, so that they still fit when facts are numbered anew: an
extraction by the turns it read, a decision by the texts of its facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import BaseModel, PrivateAttr
from typing_extensions import override

from adk_graph_memory import prompts
from adk_graph_memory.records import digest


class Recording(BaseModel):
    """Replies to the prompts of one conversation; an entity known before is named instead of numbered."""

    about: str
    prompts: dict[str, str]
    extractions: dict[str, dict[str, Any]]
    decisions: list[tuple[str, str, str, str]] = []
    """text, operation, text of the target, reason"""
    dependencies: list[tuple[str, str]] = []
    same: list[tuple[str, str | None]] = []
    wrong: dict[str, str] = {}
    """texts of facts in which a reader found something wrong, and what"""

    @property
    def stale_prompts(self) -> list[str]:
        """The prompts that have changed since the replies were recorded."""
        return [name for name, version in self.prompts.items() if prompts.load_prompt(name).version != version]

    @classmethod
    def from_exchanges(cls, asked: Sequence[tuple[str, Mapping[str, Any]]]) -> Recording:
        """The recording of these prompts and the replies to them."""
        versions = {name: prompts.load_prompt(name).version for name in ("extract", "consolidate")}
        made = cls(about="Replies of a language model to our exact prompts.", prompts=versions, extractions={})
        for prompt, reply in asked:
            if "<conversation>" in prompt:
                made.extractions[_digest_turns(prompt)] = _name_known_entities(prompt, reply)
            else:
                made._add_decisions(prompt, reply)
        return made

    def _add_decisions(self, prompt: str, reply: Mapping[str, Any]) -> None:
        texts = {
            line["number"]: line["text"] for frame in ("known", "new") for line in prompts.decode_lines(prompt, frame)
        }
        for op in reply.get("ops", ()):
            for target in op.get("targets", ()):
                if op["fact"] in texts and target in texts and op["op"] != "ADD":
                    decision = (texts[op["fact"]], op["op"], texts[target], op.get("reason", ""))
                    self.decisions.append(decision)
        for one in reply.get("depends", ()):
            self.dependencies += [
                (texts[one["fact"]], texts[on]) for on in one["on"] if {one["fact"], on} <= set(texts)
            ]
        known, doubted = (dict(_parse_listed_entities(prompt, place)) for place in ("Known:", "Names in doubt:"))
        self.same += [
            (doubted[one["name"]], known.get(one.get("known")))
            for one in reply.get("same", ())
            if one["name"] in doubted
        ]


def load_recording(path: Path | None = None) -> Recording:
    """A recording; that of the demo's own conversation if no file is named."""
    source = path or resources.files(__package__) / "replies.json"
    return Recording.model_validate_json(source.read_text(encoding="utf-8"))


class RecordedLlm(BaseLlm):
    """A model that gives recorded replies, and fails where it is asked what it never was."""

    model: str = "recorded"
    _recording: Recording = PrivateAttr()

    @classmethod
    def from_recording(cls, recording: Recording) -> RecordedLlm:
        """A model with these replies."""
        model = cls()
        model._recording = recording
        return model

    @override
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        [prompt] = (part.text or "" for part in llm_request.contents[0].parts or ())
        reply = self._replay_extraction(prompt) if "<conversation>" in prompt else self._replay_decisions(prompt)
        text = json.dumps(reply, ensure_ascii=False)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))

    def _replay_extraction(self, prompt: str) -> dict[str, Any]:
        found = self._recording.extractions.get(_digest_turns(prompt))
        if found is None:
            raise LookupError("these turns were never read to the recorded model")
        known = {names[0]: number for number, names in _parse_known_entities(prompt).items()}
        entities = [{**one, "known_id": known.get(one.get("known_id"))} for one in found.get("entities", ())]
        return {**found, "entities": entities}

    def _replay_decisions(self, prompt: str) -> dict[str, Any]:
        known_lines, new_lines = prompts.decode_lines(prompt, "known"), prompts.decode_lines(prompt, "new")
        new = {line["text"]: line["number"] for line in new_lines}
        numbers = {line["text"]: line["number"] for line in known_lines} | new
        quotes = {line["text"]: line["quote"] for line in (*known_lines, *new_lines)}
        known = {name: number for number, name in _parse_listed_entities(prompt, "Known:")}
        ops = [
            {
                "fact": numbers[text],
                "op": op,
                "targets": [numbers[target]],
                "quotes": [quotes[text], quotes[target]],
                "reason": reason,
            }
            for text, op, target, reason in self._recording.decisions
            if {text, target} <= numbers.keys() and {text, target} & new.keys()
        ]
        depends = [
            {"fact": numbers[text], "on": [numbers[base]]}
            for text, base in self._recording.dependencies
            if text in new and base in numbers
        ]
        decided = dict(self._recording.same)
        same = [
            {"name": number, "known": known.get(decided.get(name) or "")}
            for number, name in _parse_listed_entities(prompt, "Names in doubt:")
        ]
        return {"ops": ops, "depends": depends, "same": same}


def _digest_turns(prompt: str) -> str:
    """Stands for the turns that are to be read."""
    lines = (line for line in prompts.decode_lines(prompt, "conversation") if line.get("turn", -1) >= 0)
    return digest(*(f"{line['at']} {line['text']}" for line in lines))


def _parse_known_entities(prompt: str) -> dict[int, list[str]]:
    listed = prompt.partition("# Known entities\n")[2].partition("\n\n")[0]
    found = re.findall(r"^(\d+): (\{.*\})$", listed, re.MULTILINE)
    return {int(number): json.loads(line)["names"] for number, line in found}


def _name_known_entities(prompt: str, reply: Mapping[str, Any]) -> dict[str, Any]:
    known = _parse_known_entities(prompt)
    entities = [
        {**one, "known_id": known[one["known_id"]][0] if one.get("known_id") in known else None}
        for one in reply.get("entities", ())
    ]
    return {**reply, "entities": entities}


def _parse_listed_entities(prompt: str, heading: str) -> list[tuple[int, str]]:
    listed = prompt.rpartition(f"{heading}\n")[2].partition("\nNames in doubt:")[0]
    found = re.findall(r'^\{"number": (\d+), "names": \["((?:[^"\\]|\\.)*)"', listed, re.MULTILINE)
    return [(int(number), json.loads(f'"{name}"')) for number, name in found]


def choose_model(chosen: str | None, *, has_key: bool, is_own: bool) -> str | BaseLlm:
    """What reads the demo: whatever was chosen, Gemini where there is a key, or the recording while it fits."""
    if chosen or has_key:
        return chosen or "gemini-2.5-flash"
    recording = load_recording() if is_own else None
    return RecordedLlm.from_recording(recording) if recording and not recording.stale_prompts else "rules"
