"""A user's memory as data: as the graph stores it, as their readings derive it, and how the two differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from adk_graph_memory.records.facts import Fact, FactLink
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.records.turns import Origin, Passage

FactPair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DerivedEntity:
    """An entity, and the key of the one that it was merged into, if any, by whom and why.

    ``own_names`` and ``foreign_names`` are as in :class:`~.write_plan.KnownEntity`.
    """

    key: str
    name: str
    type: str
    aliases: tuple[str, ...] = ()
    about: str = ""
    merged_into: str | None = None
    merged_by: str = ""
    merge_reason: str = ""
    own_names: tuple[str, ...] = ()
    foreign_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DerivedLink:
    """A link between facts, and when it was recorded first."""

    link: FactLink
    recorded_at: datetime | None


@dataclass(frozen=True, slots=True)
class DerivedMemory:
    """All that a user's readings make of the graph; facts and entities by their ids and keys.

    ``mentions`` maps (turn id, entity key) to the key of the entity that was meant before it was merged.
    """

    entities: dict[str, DerivedEntity] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    links: dict[FactPair, DerivedLink] = field(default_factory=dict)
    dependencies: set[FactPair] = field(default_factory=set)
    mentions: dict[tuple[str, str], str | None] = field(default_factory=dict)
    entity_keys: dict[tuple[str, int], str] = field(default_factory=dict)
    """(id of a reading, reference of an entity in it) → key that it got then"""


@dataclass(frozen=True, slots=True)
class RecordedMemory:
    """What memory had recorded at a time, without what was forgotten, undone or has expired since.

    ``statement_ids`` are the memory ids of the statements that had been added.
    """

    at: datetime
    readings: tuple[Reading, ...]
    statement_ids: frozenset[str]

    @property
    def heard_turn_ids(self) -> frozenset[str]:
        """The ids of all turns that had been read."""
        return frozenset(id for reading in self.readings for id in reading.heard_turn_ids)


class RevisionContent(NamedTuple):
    """What a revision says beside what its key covers: why, and on which words (turn id and quote key) it rests."""

    reason: str
    evidence: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """What the graph holds beside words; as in :class:`DerivedMemory`, with revisions by their fact's id and their key.

    ``origins`` are those that the facts carry.
    """

    entities: dict[str, DerivedEntity] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    revisions: dict[tuple[str, str], RevisionContent] = field(default_factory=dict)
    links: dict[FactPair, FactLink] = field(default_factory=dict)
    dependencies: frozenset[FactPair] = frozenset()
    origins: dict[str, Origin | None] = field(default_factory=dict)
    mentions: dict[tuple[str, str], str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """All of a user at one time: what they said, what was read of it, and what the graph holds.

    ``turns`` and ``statements`` are maps of properties by memory id; ``writes`` counts the writes until then.
    """

    writes: int
    turns: Mapping[str, Mapping[str, Any]]
    statements: Mapping[str, Mapping[str, Any]]
    readings: tuple[Reading, ...]
    stored: StoredMemory


@dataclass(frozen=True, slots=True)
class MemoryDifference:
    """What has to be erased and written so that the graph holds a derived memory."""

    derived: DerivedMemory
    erased_facts: tuple[str, ...]
    erased_entities: tuple[str, ...]
    erased_changes: Mapping[str, list[list[str]]]
    facts: tuple[Fact, ...]
    entities: tuple[DerivedEntity, ...]
    links: tuple[FactPair, ...]
    dependencies: tuple[FactPair, ...]
    mentions: tuple[tuple[str, str], ...]
    revisions: tuple[tuple[str, str], ...]
    stored: StoredMemory

    @property
    def is_empty(self) -> bool:
        """Whether the graph holds the derived memory already."""
        return self.count == 0

    @property
    def count(self) -> int:
        """How many nodes and edges have to be erased or written."""
        erased = (self.erased_facts, self.erased_entities, *self.erased_changes.values())
        written = (self.facts, self.entities, self.links, self.dependencies, self.mentions, self.revisions)
        return sum(map(len, (*erased, *written)))

    @property
    def passages(self) -> list[Passage]:
        """The texts that need a vector: new wordings and new names."""
        texts = [fact.proposition.text for fact in self.facts if self._is_reworded(fact)]
        texts += [entity.name for entity in self.entities if entity.key not in self.stored.entities]
        return [Passage(text) for text in dict.fromkeys(texts)]

    @property
    def reworded_facts(self) -> list[str]:
        """The ids of stored facts that get another wording."""
        return [fact.id for fact in self.facts if fact.id in self.stored.facts and self._is_reworded(fact)]

    def _is_reworded(self, fact: Fact) -> bool:
        stored = self.stored.facts.get(fact.id)
        return stored is None or stored.proposition.text != fact.proposition.text


def _order_sources(fact: Fact) -> Fact:
    """Return the fact with its sources in an order of their own."""
    return replace(fact, sources=tuple(sorted(fact.sources, key=lambda source: source.key)))


def _is_stored(fact: Fact, stored: StoredMemory) -> bool:
    """Whether the graph holds the fact as it is, whatever the order of its sources."""
    held = stored.facts.get(fact.id)
    if held is None or stored.origins.get(fact.id) != fact.origin:
        return False
    return held == fact or _order_sources(held) == _order_sources(fact)


def compare_memory(stored: StoredMemory, derived: DerivedMemory) -> MemoryDifference:
    """Find what of the stored memory is not as derived."""
    facts = derived.facts
    changed_ids = {id for id, fact in facts.items() if not _is_stored(fact, stored)}
    entities = derived.entities
    links = {pair: link.link for pair, link in derived.links.items()}
    erased_facts = stored.facts.keys() - facts.keys()
    revisions = _list_revisions(derived)
    stored_revisions = {pair: content for pair, content in stored.revisions.items() if pair[0] in facts}
    erased_revisions = {pair for pair, content in stored_revisions.items() if revisions.get(pair) != content}
    # A link that differs is erased and written again: an old reason would stay otherwise.
    erased_links = {pair for pair, link in stored.links.items() if links.get(pair) != link}
    erased_bases = set(stored.dependencies - derived.dependencies)
    erased_keys = stored.entities.keys() - entities.keys()
    erased_mentions = {pair for pair in stored.mentions if pair not in derived.mentions and pair[1] not in erased_keys}
    return MemoryDifference(
        derived,
        tuple(sorted(erased_facts)),
        tuple(sorted(erased_keys)),
        {
            "links": _list_pairs(erased_links),
            "dependencies": _list_pairs(erased_bases),
            "mentions": _list_pairs(erased_mentions),
            "revisions": _list_pairs(erased_revisions),
        },
        tuple(facts[id] for id in sorted(changed_ids)),
        tuple(derived.entities[key] for key, entity in sorted(entities.items()) if stored.entities.get(key) != entity),
        tuple(sorted(pair for pair, link in links.items() if stored.links.get(pair) != link)),
        tuple(sorted(derived.dependencies - stored.dependencies)),
        tuple(sorted(pair for pair, was in derived.mentions.items() if stored.mentions.get(pair, ...) != was)),
        tuple(
            sorted(
                pair
                for pair, content in revisions.items()
                # One that is missing of a fact that is as it was may have expired.
                if stored_revisions.get(pair, content) != content
                or (pair[0] in changed_ids and pair not in stored_revisions)
            )
        ),
        stored,
    )


def _list_revisions(derived: DerivedMemory) -> dict[tuple[str, str], RevisionContent]:
    return {
        (id, item.revision.key): RevisionContent(
            item.revision.reason, frozenset(source.key for source in item.revision.evidence)
        )
        for id, fact in derived.facts.items()
        for item in fact.revisions
    }


def _list_pairs(pairs: set[tuple[str, str]]) -> list[list[str]]:
    return [list(pair) for pair in sorted(pairs)]
