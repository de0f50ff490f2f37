"""What memory read in a window of turns, stored as it was given: everything else in the graph is derived from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from adk_graph_memory import errors
from adk_graph_memory.records.extractions import Extraction, Source, Usage
from adk_graph_memory.records.facts import FactOperation, Proposition
from adk_graph_memory.records.turns import Turn, find_word_origin

RulingOperation = Literal["correct", "pin", "unpin", "retract", "rollback", "merge", "split"]
OWNER = "owner"
"""Who made an owner's reading, in place of a model."""
RULING_REASONS: Mapping[RulingOperation, str] = {
    "correct": "corrected by the owner",
    "pin": "pinned by the owner",
    "unpin": "unpinned by the owner",
    "retract": "retracted by the owner",
    "rollback": "rolled back by the owner",
    "merge": "merged by the owner",
    "split": "kept apart by the owner",
}
"""What a ruling without a reason of its own says."""


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as a model saw it: the key of its wording, and the turn id and quote key of each source it then had.

    A claim is found again if any of its sources still supports that wording.
    """

    wording_key: str
    source_keys: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ClaimDecision:
    """A model's decision about a claim and its targets; the operations are those of a consolidation reply."""

    op: FactOperation
    claim: ClaimRef
    targets: tuple[ClaimRef, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OwnerRuling:
    """What the owner of a memory decided about a fact (``claim``), or about who is who (``names``).

    ``correct`` and ``retract``: the fact was never true. ``pin``: nothing that is extracted ends or rewords it.
    ``rollback``: what was said until now does not end it, and ``wording`` stands again. ``merge``: the entities of the
    first two ``names``, which are keys, are one; their names follow. ``split``: the second name is not the first one's.
    """

    op: RulingOperation
    claim: ClaimRef | None = None
    wording: Proposition | None = None
    names: tuple[str, ...] = ()
    reason: str = ""
    at: datetime | None = None
    """from when it counts: after all that it rules on, whatever the clocks said; None for when it was written"""


@dataclass(frozen=True, slots=True)
class WithheldFact:
    """A fact of a reading, by its ``ref``, that a guard holds for review: by which rule, and why."""

    ref: int
    rule: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """One window of turns as memory read it: what was extracted, and what was decided about it.

    Turn ids are memory ids. ``entity_keys`` are the keys that the entities of the extraction had when it was written,
    by reference: a decision about an entity names it by such a key.
    """

    id: str
    session_id: str
    extraction: Extraction
    entity_keys: Mapping[int, str] = field(default_factory=dict)
    claim_decisions: tuple[ClaimDecision, ...] = ()
    dependencies: tuple[tuple[ClaimRef, ClaimRef], ...] = ()
    doubt_answers: Mapping[int, str | None] = field(default_factory=dict)
    functional_predicates: tuple[str, ...] = ()
    extractor: str = ""
    judge: str = ""
    heard_turn_ids: tuple[str, ...] = ()
    """ids of all turns of the window"""
    at: datetime | None = None
    """when it was written to the graph; None until then"""
    ruling: OwnerRuling | None = None
    """of a reading that the owner made"""
    held: tuple[WithheldFact, ...] = ()
    """facts of the extraction that nothing is derived from until they are released"""
    is_reviewed: bool = False
    """whether the owner released or rejected a held fact of it"""
    is_rereading: bool = False
    """whether its turns were read before"""
    outdated_turn_ids: frozenset[str] = frozenset()
    """ids of its turns that were edited and read again since"""
    reread_at: Mapping[str, datetime] = field(default_factory=dict)
    """when its turns were read again as they are, by their ids; until then this reading counted"""


@dataclass(frozen=True, slots=True)
class LostReading:
    """A reading that cannot be decoded any more: what its request tells of it, and the turns that it read last."""

    id: str
    session_id: str
    extractor: str
    at: datetime | None
    turn_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class OwnerWord:
    """What the owner said about their memory: its reading, and the turn that holds the words, if there are any."""

    reading: Reading
    turns: tuple[Turn, ...] = ()


_UNREADABLE = "What was read of this user's words cannot be read any more: run `adk-graph-memory doctor --mend`."
_ADAPTER = TypeAdapter(Reading)
_LEFT_TO_TURNS: Any = {"extraction": {"facts": {"__all__": {"sources": {"__all__": {"author", "origin"}}}}}}
"""What a turn says of its own words."""


def encode_reading(reading: Reading) -> str:
    """Encode a reading as JSON, without what the graph holds beside it.

    Raises:
        errors.InvalidUnicode: a text of it holds half a character.
    """
    extraction = replace(reading.extraction, usage=Usage(), drop_counts={}, remarks=(), forget_turn_ids=(), unread={})
    reading = replace(reading, extraction=extraction, at=None, outdated_turn_ids=frozenset(), reread_at={})
    try:
        return _ADAPTER.dump_json(reading, exclude=_LEFT_TO_TURNS, exclude_defaults=True).decode()
    except PydanticSerializationError as error:
        raise errors.InvalidUnicode(reason=str(error)) from error


def decode_reading(
    text: str, at: datetime | None, current_turn_ids: Collection[str], reread_at: Mapping[str, datetime] | None = None
) -> Reading:
    """Decode a reading that was written at this time.

    Args:
        text: the JSON.
        at: when it was written.
        current_turn_ids: the ids of its turns that nobody has edited since.
        reread_at: when which of them were read again.

    Raises:
        errors.GraphMemoryError: it is not what this release writes.
    """
    try:
        reading = _ADAPTER.validate_json(text)
    except ValidationError as error:
        raise errors.GraphMemoryError(_UNREADABLE) from error
    outdated_ids = frozenset(reading.heard_turn_ids).difference(current_turn_ids)
    return replace(reading, at=at, outdated_turn_ids=outdated_ids, reread_at=reread_at or {})


def is_readable(text: str) -> bool:
    """Whether a reading can be decoded."""
    try:
        decode_reading(text, None, ())
    except errors.GraphMemoryError:
        return False
    return True


def attribute_words(reading: Reading, turns: Mapping[str, Mapping[str, Any]]) -> Reading:
    """Return the reading with author and origin of its words, from the turns' author, origin and own_text, by id."""

    def attribute(source: Source) -> Source:
        turn = turns.get(source.turn_id)
        if turn is None:
            return source
        origin = find_word_origin(turn["origin"], turn["own_text"], source.end)
        return replace(source, author=turn["author"], origin=origin)

    facts = (replace(fact, sources=tuple(map(attribute, fact.sources))) for fact in reading.extraction.facts)
    return replace(reading, extraction=replace(reading.extraction, facts=tuple(facts)))


def rename_turns(extraction: Extraction, memory_ids: Mapping[str, str]) -> Extraction:
    """Replace the ids of turns by memory ids, by which turns of all sessions are told apart."""

    def rename(turn_id: str) -> str:
        return memory_ids.get(turn_id, turn_id)

    return replace(
        extraction,
        facts=tuple(
            replace(fact, sources=tuple(replace(source, turn_id=rename(source.turn_id)) for source in fact.sources))
            for fact in extraction.facts
        ),
        mentions=tuple((rename(turn_id), ref) for turn_id, ref in extraction.mentions),
        remarks=tuple(replace(remark, turn_id=rename(remark.turn_id)) for remark in extraction.remarks),
        forget_turn_ids=tuple(map(rename, extraction.forget_turn_ids)),
        unread={rename(turn_id): reason for turn_id, reason in extraction.unread.items()},
    )
