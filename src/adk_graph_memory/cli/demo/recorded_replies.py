"""Replay a language model's recorded replies to a conversation as an ADK model.

A recording refers to texts instead of numbers, so it still fits when facts are renumbered: it keys an extraction by
its turns, and a decision by the texts of its facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from importlib import resources
from pathlib import Path
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import BaseModel, PrivateAttr
from typing_extensions import override

from adk_graph_memory.language.text import digest
from adk_graph_memory.models import prompts


class Recording(BaseModel):
    """Replies to the prompts of one conversation; known entities are given by name instead of number."""

    about: str
    prompts: dict[str, str]
    extractions: dict[str, dict[str, Any]]
    decisions: list[tuple[str, str, str, str]] = []
    """(text, operation, text of the target, reason)"""
    dependencies: list[tuple[str, str]] = []
    same: list[tuple[str, str | None]] = []
    wrong: dict[str, str] = {}
    """text of a fact → the error that a reader found in it"""

    @property
    def stale_prompts(self) -> list[str]:
        """Names of the prompts that have changed since the recording."""
        return [name for name, version in self.prompts.items() if prompts.load_prompt(name).version != version]


def load_recording(path: Path | None = None) -> Recording:
    """Load the recording in a file, by default that of the demo's own conversation."""
    source = path or resources.files(__package__) / "replies.json"
    return Recording.model_validate_json(source.read_text(encoding="utf-8"))


class RecordedLlm(BaseLlm):
    """A model that replays recorded replies, and raises a LookupError for turns that were not recorded."""

    model: str = "recorded"
    _recording: Recording = PrivateAttr()

    @classmethod
    def from_recording(cls, recording: Recording) -> RecordedLlm:
        """Create a model that replays this recording."""
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
        extraction = self._recording.extractions.get(digest_turns(prompt))
        if extraction is None:
            raise LookupError("these turns were never read to the recorded model")
        numbers = {names[0]: number for number, names in parse_known_entities(prompt).items()}
        entities = extraction.get("entities", ())
        entities = [{**entity, "known_id": numbers.get(entity.get("known_id"))} for entity in entities]
        return {**extraction, "entities": entities}

    def _replay_decisions(self, prompt: str) -> dict[str, Any]:
        known_lines, new_lines = prompts.decode_lines(prompt, "known"), prompts.decode_lines(prompt, "new")
        new_numbers = {line["text"]: line["number"] for line in new_lines}
        known_numbers = {line["text"]: line["number"] for line in known_lines}
        numbers = known_numbers | new_numbers
        quotes = {line["number"]: line["quote"] for line in (*known_lines, *new_lines)}
        entity_numbers = {name: number for number, name in parse_listed_entities(prompt, "Known:")}
        ops = []
        for text, op, target, reason in self._recording.decisions:
            target_numbers = known_numbers if target == text else numbers
            if text in numbers and target in target_numbers and {text, target} & new_numbers.keys():
                pair = numbers[text], target_numbers[target]
                quoted = [quotes[number] for number in pair]
                ops.append({"fact": pair[0], "op": op, "targets": [pair[1]], "quotes": quoted, "reason": reason})
        depends = [
            {"fact": numbers[text], "on": [numbers[base]]}
            for text, base in self._recording.dependencies
            if text in new_numbers and base in numbers
        ]
        known_names = dict(self._recording.same)
        same = [
            {"name": number, "known": entity_numbers.get(known_names.get(name) or "")}
            for number, name in parse_listed_entities(prompt, "Names in doubt:")
        ]
        return {"ops": ops, "depends": depends, "same": same}


def digest_turns(prompt: str) -> str:
    """Digest the turns of an extraction prompt, the key of its reply."""
    lines = (line for line in prompts.decode_lines(prompt, "conversation") if line.get("turn", -1) >= 0)
    return digest(*(f"{line['at']} {line['text']}" for line in lines))


def parse_known_entities(prompt: str) -> dict[int, list[str]]:
    """Parse the names of the known entities in an extraction prompt, by number."""
    section = prompt.partition("# Known entities\n")[2].partition("\n\n")[0]
    lines = re.findall(r"^(\d+): (\{.*\})$", section, re.MULTILINE)
    return {int(number): json.loads(line)["names"] for number, line in lines}


def parse_listed_entities(prompt: str, heading: str) -> list[tuple[int, str]]:
    """Parse number and first name of the entities under a heading of a consolidation prompt."""
    section = prompt.rpartition(f"{heading}\n")[2].partition("\nNames in doubt:")[0]
    entries = re.findall(r'^\{"number": (\d+), "names": \["((?:[^"\\]|\\.)*)"', section, re.MULTILINE)
    return [(int(number), json.loads(f'"{name}"')) for number, name in entries]


def choose_model(name: str | None, *, has_key: bool, is_own: bool) -> str | BaseLlm:
    """Choose the named model, else Gemini if there is a key, else the recording (for the demo's own text), or rules."""
    if name or has_key:
        return name or "gemini-flash-latest"
    recording = load_recording() if is_own else None
    return RecordedLlm.from_recording(recording) if recording and not recording.stale_prompts else "rules"
