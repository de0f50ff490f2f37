"""Record a careful model's replies to dialogues that try to poison a memory, in rounds, and replay them.

Every second dialogue is read. Each prompt, as memory asks it, is a file ``DIALOGUE-NUMBER.txt``; its reply is to lie in
``DIALOGUE-NUMBER.json`` before the next round, for what is asked next depends on it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from pydantic import PrivateAttr

from adk_graph_memory import GraphMemory, errors
from adk_graph_memory.cli.demo.recorded_replies import RecordedLlm, Recording
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.runtime.settings import Settings, load_settings
from adk_graph_memory.testing import make_text_response
from benchmarks.quality.attacks import HERE, Dialogue, load_dialogues
from benchmarks.quality.record import make_recording

PLACE = HERE / "recordings" / "poisoning.json"
EVERY = 2
APP = f"careful-{uuid.uuid4().hex[:8]}"
"""Each dialogue has an app of its own: the same user speaks in several of them."""


def select_dialogues() -> Sequence[Dialogue]:
    """Those that are read by a careful model."""
    return load_dialogues()[::EVERY]


@cache
def load_recordings() -> dict[str, Recording]:
    """What a careful model replied, by the dialogue's name."""
    if not PLACE.exists():
        return {}
    recordings = json.loads(PLACE.read_text("utf-8"))
    return {name: Recording.model_validate(recording) for name, recording in recordings.items()}


def make_reader(dialogue: Dialogue) -> RecordedLlm | None:
    """A model that replays the replies to this dialogue; None where it was not read."""
    recording = load_recordings().get(dialogue.name)
    return RecordedLlm.from_recording(recording) if recording else None


class NumberedLlm(BaseLlm):
    """A model that takes replies from a folder and writes down the first prompt that has none."""

    model: str = "recorded"
    _prompts: Path = PrivateAttr()
    _replies: Path = PrivateAttr()
    _name: str = PrivateAttr()
    _exchanges: list[tuple[str, dict[str, Any]]] = PrivateAttr(default_factory=list)

    @classmethod
    def from_folders(cls, prompts: Path, replies: Path, name: str) -> NumberedLlm:
        """A model whose prompts and replies have this name and a number."""
        model = cls()
        model._prompts, model._replies, model._name = prompts, replies, name
        return model

    @property
    def exchanges(self) -> list[tuple[str, dict[str, Any]]]:
        """Prompts and replies so far."""
        return self._exchanges

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        [prompt] = (part.text or "" for part in llm_request.contents[0].parts or ())
        name = f"{self._name}-{len(self._exchanges) + 1:02}"
        asked, reply = self._prompts / f"{name}.txt", self._replies / f"{name}.json"
        is_same = asked.exists() and asked.read_text("utf-8") == prompt
        asked.write_text(prompt, "utf-8")
        if not (is_same and reply.exists()):
            raise LookupError(f"{asked} waits for its reply")
        text = reply.read_text("utf-8")
        self._exchanges.append((prompt, json.loads(text)))
        yield make_text_response(text)


async def ask(settings: Settings, prompts: Path, replies: Path) -> list[str]:
    """Take a round: the names of the dialogues that still wait for a reply. Without any, all are recorded."""
    once = load_settings(**settings.model_dump() | {"model_retries": 0})
    recordings, embedder = dict[str, Recording](), LocalEmbedder()
    waiting = []
    for number, dialogue in enumerate(select_dialogues(), 1):
        model = NumberedLlm.from_folders(prompts, replies, f"{number:02}")
        try:
            await _read(once, dialogue, model, embedder)
        except errors.ModelError:
            waiting.append(dialogue.name)
        recordings[dialogue.name] = make_recording(model.exchanges)
    if not waiting:
        content = {name: recording.model_dump() for name, recording in recordings.items()}
        PLACE.write_text(json.dumps(content, ensure_ascii=False, indent=0) + "\n", "utf-8")
    return waiting


async def _read(settings: Settings, dialogue: Dialogue, model: NumberedLlm, embedder: LocalEmbedder) -> None:
    async with GraphMemory(settings=settings, model=model, embedder=embedder) as memory:
        for session_id in dialogue.sessions:
            turns = dialogue.make_turns(session_id)
            await memory.remember(
                turns, app_name=f"{APP}-{dialogue.name}", user_id=dialogue.user, session_id=session_id
            )
