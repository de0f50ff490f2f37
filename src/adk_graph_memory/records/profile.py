"""A user's profile: what of their current facts is always worth knowing, and a form that these facts fill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from adk_graph_memory.language.wording import join_lines
from adk_graph_memory.records.dates import format_english_date
from adk_graph_memory.records.results import StoredFact
from adk_graph_memory.records.write_plan import STATES_PREDICATE

Section = Literal["who", "home", "work", "people", "preferences", "instructions", "other"]
SECTIONS: tuple[Section, ...] = get_args(Section)
SECTION_TITLES: Mapping[Section, str] = {
    "who": "Who they are",
    "home": "Home",
    "work": "Work",
    "people": "People",
    "preferences": "Preferences",
    "instructions": "Standing instructions",
    "other": "Also",
}
"""The heading of each section in a profile's text, in its order."""
UserPlace = Literal["subject", "object", "agent", "nowhere"]
"""What the user is in a fact; ``agent`` if the user told it of their agent, ``nowhere`` if it names no subject."""


@dataclass(frozen=True, slots=True)
class ProfileCandidate:
    """A current fact that concerns the user, without its sources."""

    fact: StoredFact
    place: UserPlace
    subject_type: str | None = None
    """the type of the entity that the fact is about; so is ``object_type`` of the one it points to"""
    object_type: str | None = None
    support: int = 0
    """the number of turns that it rests on"""

    @property
    def other_name(self) -> str | None:
        """The name of the entity on the other side of the fact."""
        return self.fact.subject if self.place == "object" else self.fact.object

    @property
    def other_type(self) -> str | None:
        """The type of the entity on the other side of the fact."""
        return self.subject_type if self.place == "object" else self.object_type

    @property
    def is_statement(self) -> bool:
        """Whether it repeats somebody's words and says not what it is about, as without a model."""
        return self.fact.predicate == STATES_PREDICATE and not self.fact.topic


@dataclass(frozen=True, slots=True)
class ProfileItem:
    """One line of a profile."""

    section: Section
    text: str
    """the fact's text; if it is only somebody's words, with the day it was said; with a note if no person said it"""
    fact: StoredFact

    @property
    def quotes(self) -> tuple[str, ...]:
        """The words that the fact rests on."""
        return tuple(dict.fromkeys(source.quote for source in self.fact.sources))


@dataclass(frozen=True, slots=True)
class FieldEvidence:
    """What a field of a form was filled from."""

    fact_ids: tuple[str, ...]
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfileForm:
    """A pydantic model that a user's facts fill."""

    instance: Any
    """an instance of the schema; where no fact speaks a field has its default, and None if it has none"""
    evidence: Mapping[str, FieldEvidence] = field(default_factory=dict)
    """of each filled field, by its name"""
    missing: tuple[str, ...] = ()
    """required fields of which no fact speaks; with any, the instance was not validated"""


@dataclass(frozen=True, slots=True)
class Profile:
    """What is always worth knowing about a user: a view over the facts that hold now."""

    items: tuple[ProfileItem, ...] = ()
    """section by section"""
    form: ProfileForm | None = None
    """the schema that was asked for, filled"""

    @property
    def sections(self) -> dict[Section, tuple[ProfileItem, ...]]:
        """The items of each section that has any."""
        groups = {section: tuple(item for item in self.items if item.section == section) for section in SECTIONS}
        return {section: items for section, items in groups.items() if items}

    @property
    def text(self) -> str:
        """The profile for a prompt: a heading for each section, and a line for each item."""
        return "\n".join(
            "\n".join([f"{SECTION_TITLES[section]}:", *(format_item(item) for item in items)])
            for section, items in self.sections.items()
        )


def format_item(item: ProfileItem) -> str:
    """The line of an item."""
    return f"- {join_lines(item.text)}"


def describe_statement(text: str, fact: StoredFact, speaker: str | None) -> str:
    """The text of a fact that is only somebody's words: whether it still holds is for the reader to judge."""
    day = format_english_date(fact.at, "day")
    return f"{text} ({speaker}, {day})" if speaker else f"{text} (said {day})"
