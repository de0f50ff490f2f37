"""Record a model's replies to a conversation: write each prompt to a file and wait for the reply beside it.

    python -m benchmarks.quality.record demo FOLDER

Each ``NN.prompt.md``, with the schema that a model gets beside it, waits for its ``NN.reply.json``. A prompt that has a
reply already is not asked again, so a recording that was broken off, or whose prompts have changed in part, goes on
where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import BaseModel, PrivateAttr

from adk_graph_memory import GraphMemory
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.cli.demo.recorded_replies import (
    Recording,
    digest_turns,
    parse_known_entities,
    parse_listed_entities,
)
from adk_graph_memory.models import prompts
from adk_graph_memory.runtime.settings import load_settings
from benchmarks import server
from benchmarks.quality.replies import HERE, NAMES, load_conversation

PATIENCE = 86_400.0
"""Seconds to wait for a reply."""


class AskingLlm(BaseLlm):
    """A model whose prompts are files, and whose replies are whatever is laid beside them."""

    model: str = "recorded"
    _folder: Path = PrivateAttr()
    _exchanges: list[tuple[str, dict[str, Any]]] = PrivateAttr(default_factory=list)

    @classmethod
    def from_folder(cls, folder: Path) -> AskingLlm:
        """A model that asks in this folder."""
        model = cls()
        folder.mkdir(parents=True, exist_ok=True)
        model._folder = folder
        return model

    @property
    def exchanges(self) -> list[tuple[str, dict[str, Any]]]:
        """Prompts and replies so far."""
        return self._exchanges

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        [prompt] = (part.text or "" for part in llm_request.contents[0].parts or ())
        reply = self._locate_reply(prompt)
        schema = llm_request.config.response_schema
        assert isinstance(schema, type)
        assert issubclass(schema, BaseModel)
        place = reply.with_name(reply.name.replace(".reply.", ".schema."))
        place.write_text(json.dumps(schema.model_json_schema(), ensure_ascii=False), "utf-8")
        while not reply.exists():  # noqa: ASYNC110  # somebody else writes it, by hand perhaps
            await asyncio.sleep(0.5)
        text = reply.read_text("utf-8")
        self._exchanges.append((prompt, json.loads(text)))
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))

    def _locate_reply(self, prompt: str) -> Path:
        """Where the reply to this prompt is, or will be."""
        known = sorted(self._folder.glob("*.prompt.md"))
        path = next((path for path in known if path.read_text("utf-8") == prompt), None)
        if path is None:
            path = self._folder / f"{len(known) + 1:02}.prompt.md"
            path.write_text(prompt, "utf-8")
        return path.with_name(path.name.replace(".prompt.md", ".reply.json"))


def make_recording(exchanges: Sequence[tuple[str, Mapping[str, Any]]]) -> Recording:
    """Make a recording of (prompt, reply) pairs."""
    versions = {name: prompts.load_prompt(name).version for name in ("extract", "consolidate")}
    recording = Recording(about="Replies of a language model to our exact prompts.", prompts=versions, extractions={})
    for prompt, reply in exchanges:
        if "<conversation>" in prompt:
            recording.extractions[digest_turns(prompt)] = _name_known_entities(prompt, reply)
        else:
            _add_decisions(recording, prompt, reply)
    return recording


def _name_known_entities(prompt: str, reply: Mapping[str, Any]) -> dict[str, Any]:
    names = parse_known_entities(prompt)
    entities = [
        {**entity, "known_id": names[entity["known_id"]][0] if entity.get("known_id") in names else None}
        for entity in reply.get("entities", ())
    ]
    return {**reply, "entities": entities}


def _add_decisions(recording: Recording, prompt: str, reply: Mapping[str, Any]) -> None:
    texts = {line["number"]: line["text"] for frame in ("known", "new") for line in prompts.decode_lines(prompt, frame)}
    for op in reply.get("ops", ()):
        for target in op.get("targets", ()):
            if op["fact"] in texts and target in texts and op["op"] != "ADD":
                decision = (texts[op["fact"]], op["op"], texts[target], op.get("reason", ""))
                recording.decisions.append(decision)
    for dependency in reply.get("depends", ()):
        fact = dependency["fact"]
        recording.dependencies += [(texts[fact], texts[on]) for on in dependency["on"] if {fact, on} <= set(texts)]
    known_names = dict(parse_listed_entities(prompt, "Known:"))
    names_in_doubt = dict(parse_listed_entities(prompt, "Names in doubt:"))
    recording.same += [
        (names_in_doubt[match["name"]], known_names.get(match.get("known")))
        for match in reply.get("same", ())
        if match["name"] in names_in_doubt
    ]


async def main(name: str, folder: Path) -> None:
    model, app_name = AskingLlm.from_folder(folder), f"record-{uuid.uuid4().hex[:12]}"
    async with server.serve("Record") as (settings, _):
        patient = load_settings(**settings.model_dump(), model_timeout=PATIENCE, lease=PATIENCE, model_retries=0)
        async with GraphMemory(settings=patient, model=model) as memory:
            talk = load_conversation(name)
            for session in talk.sessions:
                turns = memory_codec.make_turns(session.make_events(), zone=talk.zone)
                await memory.remember(turns, app_name=app_name, user_id="ada", session_id=session.id)
    place = resources.files("adk_graph_memory.cli.demo") / "replies.json" if name == "demo" else None
    written = Path(str(place)) if place else HERE / "recordings" / f"{name}.json"
    recording = make_recording(model.exchanges)
    written.write_text(json.dumps(recording.model_dump(), ensure_ascii=False, indent=0) + "\n", "utf-8")
    print(f"{len(model.exchanges)} replies recorded in {written}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.record", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("folder", type=Path, help="where prompts are laid down and replies awaited")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.name, arguments.folder))
