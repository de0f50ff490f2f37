"""A user's memory as data: as the graph stores it, as their readings derive it, and how the two differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from adk_graph_memory.records.facts import Delta, EntityWrite, Erased, Fact, FactLink, FactPair, FactWrite, Revision
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.records.turns import Origin


@dataclass(frozen=True, slots=True)
class DerivedEntity:
    """An entity, and the key of the one that it was merged into, if any, by whom and why.

    ``own_names`` and ``foreign_names`` are as in :class:`~.facts.KnownEntity`.
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
class DerivedMemory:
    """All that a user's readings make of the graph; facts and entities by their ids and keys.

    ``mentions`` maps (turn id, entity key) to the key of the entity that was meant before it was merged.
    """

    entities: dict[str, DerivedEntity] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    links: dict[FactPair, FactLink] = field(default_factory=dict)
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


def _order_sources(fact: Fact) -> Fact:
    """Return the fact with its sources in an order of their own."""
    return replace(fact, sources=tuple(sorted(fact.sources, key=lambda source: source.key)))


def _is_stored(fact: Fact, stored: StoredMemory) -> bool:
    """Whether the graph holds the fact as it is, whatever the order of its sources."""
    held = stored.facts.get(fact.id)
    if held is None or stored.origins.get(fact.id) != fact.origin:
        return False
    return held == fact or _order_sources(held) == _order_sources(fact)


def compare_memory(stored: StoredMemory, derived: DerivedMemory) -> Delta:
    """Find what of the stored memory is not as derived."""
    facts, entities, links = derived.facts, derived.entities, derived.links
    changed_ids = {id for id, fact in facts.items() if not _is_stored(fact, stored)}
    revisions = {(id, item.key): item for id, fact in facts.items() for item in fact.revisions}
    contents = {pair: _describe_revision(item) for pair, item in revisions.items()}
    stored_revisions = {pair: content for pair, content in stored.revisions.items() if pair[0] in facts}
    # A link or a mention that differs is erased and written again.
    erased_links = {pair for pair, link in stored.links.items() if links.get(pair) != link}
    erased_keys = stored.entities.keys() - entities.keys()
    stored_names = {key: entity.name for key, entity in stored.entities.items()}
    erased_mentions = {
        pair
        for pair, was in stored.mentions.items()
        if derived.mentions.get(pair, ...) != was and pair[1] not in erased_keys
    }
    return Delta(
        entities=tuple(
            EntityWrite(**asdict(entity), is_new=stored_names.get(key) != entity.name, is_whole=True)
            for key, entity in sorted(entities.items())
            if stored.entities.get(key) != entity
        ),
        facts=tuple(_write_whole_fact(stored.facts.get(id), facts[id]) for id in sorted(changed_ids)),
        revisions=tuple(
            revisions[pair]
            for pair, content in sorted(contents.items(), key=lambda item: item[0])
            # One that is missing of a fact that is as it was may have expired.
            if stored_revisions.get(pair, content) != content
            or (pair[0] in changed_ids and pair not in stored_revisions)
        ),
        links=tuple(link for pair, link in sorted(links.items()) if stored.links.get(pair) != link),
        dependencies=tuple(sorted(derived.dependencies - stored.dependencies)),
        mentions={pair: was for pair, was in sorted(derived.mentions.items()) if stored.mentions.get(pair, ...) != was},
        erased=Erased(
            facts=tuple(sorted(stored.facts.keys() - facts.keys())),
            entities=tuple(sorted(erased_keys)),
            links=tuple(sorted(erased_links)),
            dependencies=tuple(sorted(stored.dependencies - derived.dependencies)),
            mentions=tuple(sorted(erased_mentions)),
            revisions=tuple(sorted(pair for pair, held in stored_revisions.items() if contents.get(pair) != held)),
        ),
    )


def _describe_revision(revision: Revision) -> RevisionContent:
    return RevisionContent(revision.reason, frozenset(source.key for source in revision.evidence))


def _write_whole_fact(stored: Fact | None, fact: Fact) -> FactWrite:
    if stored is None:
        return FactWrite(fact, added_sources=fact.sources)
    keys, known = {source.key for source in fact.sources}, set(stored.sources)
    return FactWrite(
        fact,
        is_new=False,
        is_reworded=stored.proposition.text != fact.proposition.text,
        added_sources=tuple(source for source in fact.sources if source not in known),
        removed_sources=tuple(source for source in stored.sources if source.key not in keys),
    )
