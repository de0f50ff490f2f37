"""Define the reply that a model is asked for: flat, with integers as references, so that small models can fill it in.

Gemini's schema subset allows no unions, tuples or free-form objects, so no field uses them. Each field is explained
here or in the prompt, not in both.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from adk_graph_memory.records import Manner
from adk_graph_memory.records.extraction_result import UNKNOWN_TYPE


def _parse_number(value: Any) -> Any:
    """The number in "3", "turn-3" or 3.0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    match = re.search(r"(?<!\w)-?\d+", value) if isinstance(value, str) else None
    return int(match[0]) if match else value


def _parse_numbers(value: Any) -> Any:
    values = value if isinstance(value, list) else [] if value is None else [value]
    return list(dict.fromkeys(number for number in map(_parse_number, values) if isinstance(number, int)))


def _replace_null(value: Any) -> Any:
    return "" if value is None else value


LenientInt = Annotated[int, BeforeValidator(_parse_number)]
LenientInts = Annotated[list[int], BeforeValidator(_parse_numbers)]
LenientText = Annotated[str, BeforeValidator(_replace_null)]
LenientTexts = Annotated[list[str], BeforeValidator(lambda value: [] if value is None else value)]


class EntityReply(BaseModel):
    ref: LenientInt = Field(description="a number of your choice")
    name: str
    type: str = UNKNOWN_TYPE
    aliases: LenientTexts = []
    about: LenientText = Field(default="", description="what tells it from a namesake, in a few words")
    known_id: LenientInt | None = None


class FactReply(BaseModel):
    ref: LenientInt = Field(default=0, description="a number of your choice")
    subject: LenientInt = Field(description="ref of an entity")
    predicate: str
    object: LenientInt | None = Field(default=None, description="ref of the other entity, if there is one")
    text: str = Field(description="one short sentence")
    quote: str
    turns: LenientInts = Field(description="numbers of the turns that contain the quote")
    speaker: LenientText = Field(default="", description="whose word it is, if not the author's of the turn")
    modality: Literal["asserted", "negated", "planned", "hypothetical", "reported"] = "asserted"
    valid_from: str | None = None
    valid_to: str | None = None
    topic: LenientText = ""
    replaces: LenientInts = Field(default=[], description="refs of facts of this reply")
    correction: bool = False
    depends_on: LenientInts = Field(default=[], description="refs of facts of this reply")


class TurnReply(BaseModel):
    turn: LenientInt
    kind: Manner
    origin: LenientText = Field(default="", description="who wrote it, if said")


class ForgetReply(BaseModel):
    request: LenientInt = Field(description="the turn that asks for it")
    turns: LenientInts = Field(description="those of its author that it covers, and answers that repeat them")


class ExtractionReply(BaseModel):
    entities: list[EntityReply] = []
    facts: list[FactReply] = []
    turns: list[TurnReply] = []
    forget: list[ForgetReply] = []
