"""The reply that a model is asked for: flat, small, with integers for references, so that small models manage it too.

Gemini's schema subset allows no unions, no tuples, no free-form objects; every field here is one it takes.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class EntityReply(BaseModel):
    """Somebody or something that the conversation is about."""

    ref: int = Field(description="a number of your choice, unique in this reply")
    name: str = Field(description="the fullest name used, as it is written")
    type: str = Field(default="thing", description="person, organization, place, animal, event, object or topic")
    aliases: list[str] = Field(default=[], description="other names used for the same")
    about: str = Field(default="", description="what tells it from another of the same name, in a few words")
    known_id: int | None = Field(
        default=None, description="the number in the list of known entities, if it is one of them"
    )


class FactReply(BaseModel):
    """One statement, with the words that it rests on."""

    ref: int = Field(default=0, description="a number of your choice, unique among the facts of this reply")
    subject: int = Field(description="the ref of the entity the fact is about")
    predicate: str = Field(description="what links subject and object, in snake_case, for example lives_in")
    object: int | None = Field(default=None, description="the ref of the other entity, if there is one")
    text: str = Field(description="the fact as one sentence that can be understood alone")
    quote: str = Field(description="the words it rests on, copied exactly from one turn")
    turns: list[int] = Field(description="the numbers of the turns that say so")
    speaker: str = Field(default="", description="who said it")
    modality: Literal["asserted", "negated", "planned", "hypothetical", "reported"] = "asserted"
    valid_from: str | None = Field(default=None, description="ISO 8601 date or time since when it is true, if said")
    valid_to: str | None = Field(default=None, description="ISO 8601 date or time until when it was true, if said")
    date_basis: Literal["explicit", "relative", "none"] = "none"
    topic: str = Field(default="", description="one or two words")
    replaces: list[int] = Field(default=[], description="refs of facts of this reply that this one ended or corrects")
    correction: bool = Field(default=False, description="whether it says that something told before was never true")
    depends_on: list[int] = Field(default=[], description="refs of facts of this reply that it would not hold without")


class ExtractionReply(BaseModel):
    """Everything worth remembering in the turns."""

    entities: list[EntityReply] = []
    facts: list[FactReply] = []
