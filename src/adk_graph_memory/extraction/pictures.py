"""Ask a model what pictures show, in calls of a bounded size."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import BaseModel, Field

from adk_graph_memory import errors
from adk_graph_memory.extraction.reply import LenientInt
from adk_graph_memory.language.text import join_lines, shorten_text
from adk_graph_memory.models import llm, prompts
from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.records.turns import ROUND_BRACKETS, Turn
from adk_graph_memory.runtime import concurrency
from adk_graph_memory.runtime.settings import Limits

MAX_PICTURE_BYTES, MAX_REQUEST_BYTES = 7 << 20, 12 << 20
"""Bytes of a picture, and of all pictures of one call, at most: Base64 takes a third more, and Gemini takes 20 MB."""
MAX_PICTURES = 16
"""Pictures of one call, at most, so that their descriptions fit into one reply."""
MAX_CHARACTERS = 1_500
"""Characters of a description, at most."""
MAX_WAITING_BYTES = 64 << 20
"""Bytes of pictures that wait in a process to be described, at most."""
_MAX_SAID_CHARACTERS = 500
UNDESCRIBED = "picture that the model did not describe"
"""The reason under which a report counts it."""


class Picture(NamedTuple):
    """A picture to describe: its file's name, what was said with it, and its content."""

    name: str
    said: str
    media: llm.Media

    @property
    def size(self) -> int:
        """Bytes that a request needs for it; none if the model opens a URI."""
        return len(self.media.content or b"")


@dataclass(frozen=True, slots=True)
class Descriptions:
    """A description for each picture, what they cost, and how many are missing by reason.

    A text is empty if the model saw nothing or refused, and None if it could not be asked; ``problem`` says why.
    """

    texts: tuple[str | None, ...] = ()
    usage: Usage = field(default_factory=Usage)
    drop_counts: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""

    def __add__(self, other: Descriptions) -> Descriptions:
        drop_counts = Counter(self.drop_counts) + Counter(other.drop_counts)
        problem = self.problem or other.problem
        return Descriptions(self.texts + other.texts, self.usage + other.usage, drop_counts, problem)


class PictureReply(BaseModel):
    picture: LenientInt = Field(description="its number")
    description: str


class DescriptionReply(BaseModel):
    pictures: list[PictureReply] = []


class PictureDescriber:
    """Describes pictures with a language model that reads them.

    Args:
        model: any ADK model.
        limits: how often, how long and how many at a time to call the model.
    """

    def __init__(self, model: llm.BaseLlm, limits: Limits) -> None:
        self._model, self._limits, self._prompt = model, limits, prompts.load_prompt("describe")
        self.version = f"{model.model} {self._prompt.version}"

    async def describe_pictures(self, pictures: Sequence[Picture]) -> Descriptions:
        """Describe the pictures; what cannot be described is counted, and holds up nothing."""
        described = Descriptions()
        for group in _group_pictures(pictures):
            described += await self._describe_group(group)
        return described

    async def _describe_group(self, pictures: Sequence[Picture]) -> Descriptions:
        """Describe pictures in one call; if the model cannot answer that, each in a call of its own."""
        lines = (
            prompts.encode_line(
                {"picture": number, "name": one.name, "said": shorten_text(one.said, _MAX_SAID_CHARACTERS)}
            )
            for number, one in enumerate(pictures, start=1)
        )
        prompt = self._prompt.fill_template(pictures="\n".join(lines))
        media = [one.media for one in pictures]
        try:
            answer = await llm.generate_structured(self._model, prompt, DescriptionReply, self._limits, media)
        except errors.ModelError as error:
            if isinstance(error.__cause__, Exception) and concurrency.is_transient(error.__cause__):
                count = len(pictures)
                return Descriptions((None,) * count, drop_counts={UNDESCRIBED: count}, problem=str(error))
            if len(pictures) == 1:
                return Descriptions(("",), drop_counts={UNDESCRIBED: 1})
            return sum([await self._describe_group([one]) for one in pictures], Descriptions())
        texts = {
            reply.picture: join_lines(reply.description).strip().translate(ROUND_BRACKETS)
            for reply in answer.reply.pictures
        }
        described = tuple(shorten_text(texts.get(number, ""), MAX_CHARACTERS) for number in range(1, len(pictures) + 1))
        missing = described.count("")
        return Descriptions(described, answer.usage, {UNDESCRIBED: missing} if missing else {})


def _group_pictures(pictures: Sequence[Picture]) -> Iterator[list[Picture]]:
    group, size = list[Picture](), 0
    for picture in pictures:
        if group and (len(group) == MAX_PICTURES or size + picture.size > MAX_REQUEST_BYTES):
            yield group
            group, size = [], 0
        group.append(picture)
        size += picture.size
    if group:
        yield group


class PictureCache:
    """Keeps the bytes of pictures that wait in this process to be described, the latest ones; any thread may use it.

    Args:
        size: bytes to keep, at most.
    """

    def __init__(self, size: int) -> None:
        self._lock, self._free, self._contents = threading.Lock(), size, OrderedDict[str, bytes]()

    def keep_contents(self, turns: Iterable[Turn]) -> None:
        """Keep the bytes of the pictures that these turns show."""
        with self._lock:
            for part in (part for turn in turns for part in turn.shown if part.is_picture):
                if part.content and len(part.content) <= MAX_PICTURE_BYTES and part.key not in self._contents:
                    self._contents[part.key] = part.content
                    self._free -= len(part.content)
            while self._free < 0:
                _, content = self._contents.popitem(last=False)
                self._free += len(content)

    def drop_contents(self, turns: Iterable[Turn]) -> None:
        """Drop the bytes of the pictures that these turns show: they were read."""
        with self._lock:
            for part in (part for turn in turns for part in turn.shown):
                self._free += len(self._contents.pop(part.key, b""))

    def find_content(self, key: str) -> bytes | None:
        """Find a picture's bytes."""
        return self._contents.get(key)
