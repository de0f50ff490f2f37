"""The reply that a model is asked for: flat, small, with integers for references, so that small models manage it too.

Gemini's schema subset allows no unions, no tuples, no free-form objects; every field here is one it takes. What a field
means is said here or in the prompt, not in both.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from adk_graph_memory.records import Manner


def _number(said: Any) -> Any:
    """The number in "3", "turn-3" or 3.0."""
    if isinstance(said, float) and said.is_integer():
        return int(said)
    found = re.search(r"(?<!\w)-?\d+", said) if isinstance(said, str) else None
    return int(found[0]) if found else said


def _numbers(said: Any) -> Any:
    """A list of numbers, whether or not it came as one."""
    listed = said if isinstance(said, list) else [] if said is None else [said]
    return list(dict.fromkeys(number for number in map(_number, listed) if isinstance(number, int)))


def _text(said: Any) -> Any:
    """What a null stands for in a text that may be left out."""
    return "" if said is None else said


Number = Annotated[int, BeforeValidator(_number)]
Numbers = Annotated[list[int], BeforeValidator(_numbers)]
Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[list[str], BeforeValidator(lambda said: [] if said is None else said)]


class EntityReply(BaseModel):
    ref: Number = Field(description="a number of your choice")
    name: str
    type: str = "thing"
    aliases: Texts = []
    about: Text = Field(default="", description="what tells it from a namesake, in a few words")
    known_id: Number | None = None


class FactReply(BaseModel):
    ref: Number = Field(default=0, description="a number of your choice")
    subject: Number = Field(description="ref of an entity")
    predicate: str
    object: Number | None = Field(default=None, description="ref of the other entity, if there is one")
    text: str = Field(description="one short sentence")
    quote: str
    turns: Numbers = Field(description="numbers of the turns that contain the quote")
    speaker: Text = Field(default="", description="whose word it is, if not the author's of the turn")
    modality: Literal["asserted", "negated", "planned", "hypothetical", "reported"] = "asserted"
    valid_from: str | None = None
    valid_to: str | None = None
    topic: Text = ""
    replaces: Numbers = Field(default=[], description="refs of facts of this reply")
    correction: bool = False
    depends_on: Numbers = Field(default=[], description="refs of facts of this reply")


class TurnReply(BaseModel):
    turn: Number
    kind: Manner
    origin: Text = Field(default="", description="who wrote it, if said")


class ForgetReply(BaseModel):
    request: Number = Field(description="the turn that asks for it")
    turns: Numbers = Field(description="those of its author that it covers, and answers that repeat them")


class ExtractionReply(BaseModel):
    entities: list[EntityReply] = []
    facts: list[FactReply] = []
    turns: list[TurnReply] = []
    forget: list[ForgetReply] = []
