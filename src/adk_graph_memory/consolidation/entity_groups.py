"""Group mentions of one entity, rate how well two groups match, and check the numbers that a reply gives them.

Models easily get a number wrong, a name less so. A number counts if the names agree with it; if they say nothing, it
raises a doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, Self

from adk_graph_memory.consolidation.names import (
    NameMatch,
    ParsedName,
    compute_blocking_keys,
    has_name_conflict,
    match_names,
    parse_name,
)
from adk_graph_memory.language import spelling
from adk_graph_memory.language.text import fold_text
from adk_graph_memory.records.extractions import ExtractedEntity
from adk_graph_memory.records.facts import EntityResolution, KnownEntity

_TYPE_WORDS_BY_KIND = {
    "": "thing name entity unknown",
    "person": "person people human user agent character",
    "animal": "animal pet",
    "organization": "organization organisation company business team band institution group",
    "place": "place location city town country region address venue",
}
_KIND_BY_TYPE_WORD = {word: kind for kind, words in _TYPE_WORDS_BY_KIND.items() for word in words.split()}
_LIVING_KINDS = {"person", "animal"}
_Names = tuple[ParsedName, list[ParsedName]]


@lru_cache(maxsize=1_024)
def classify_type(type: str) -> str:
    """Return the kind of entity that a type names, by default the type itself; empty if the type says nothing."""
    folded = fold_text(type)
    return _KIND_BY_TYPE_WORD.get(folded, folded)


def is_compatible_kind(kind: str, other: str) -> bool:
    """Whether one entity may be listed under both kinds.

    Extractors mix up a pet and a person, and also a museum, a festival and whatever else does not live. Two such
    entities of one name are in doubt: Apple, the product, and apple, the food.
    """
    return not kind or not other or (kind in _LIVING_KINDS) == (other in _LIVING_KINDS)


class EntityMatch(NamedTuple):
    """How well two groups match."""

    name_match: NameMatch
    is_certain: bool = True
    """contexts and kinds agree or are missing, so only the names decide"""
    has_same_context: bool = False
    """both have a context, and the contexts are equal"""
    has_different_kind: bool = False
    """their kinds differ, but are easily confused"""


@dataclass(slots=True, eq=False)
class EntityGroup:
    """One entity with its names; ``members`` are the extracted entities that were matched to it."""

    name: str
    type: str
    about: str = ""
    aliases: list[str] = field(default_factory=list)
    key: str = ""
    is_known: bool = False
    merged_keys: tuple[str, ...] = ()
    """keys of known entities that were merged into this one"""
    split_from: str = ""
    """key of the known entity that this one was mistaken for"""
    foreign_names: tuple[str, ...] = ()
    """names, folded, that are somebody else's on the owner's word"""
    members: list[ExtractedEntity] = field(default_factory=list)
    _blocking_keys: frozenset[str] | None = None

    @classmethod
    def from_known_entity(cls, entity: KnownEntity) -> Self:
        """Make the group of a known entity."""
        aliases = list(entity.aliases)
        return cls(
            entity.name,
            entity.type,
            entity.about,
            aliases,
            entity.key,
            is_known=True,
            merged_keys=entity.merged_keys,
            foreign_names=entity.foreign_names,
        )

    @classmethod
    def from_extracted(cls, members: list[ExtractedEntity]) -> Self:
        """Make a new group from extracted entities of one name."""
        first = members[0]
        group = cls(first.name, first.type, first.about)
        group.add_members(members)
        return group

    def add_members(self, members: Iterable[ExtractedEntity]) -> None:
        """Add extracted entities and take over their names, context and type."""
        for member in members:
            self.members.append(member)
            names = (member.name, *member.aliases)
            self.aliases += [name for name in dict.fromkeys(names) if name not in (self.name, *self.aliases)]
            self.about = self.about or member.about
            self.type = self.type if self.kind else member.type
        self._blocking_keys = None

    @property
    def kind(self) -> str:
        """The kind of its type."""
        return classify_type(self.type)

    @property
    def quotes(self) -> tuple[str, ...]:
        """The quotes that name it."""
        return tuple(dict.fromkeys(quote for member in self.members for quote in member.quotes))

    @property
    def windows(self) -> set[int]:
        """The windows of its members."""
        return {member.window for member in self.members}

    @property
    def context(self) -> frozenset[str]:
        """The words that distinguish it from others of its name."""
        return frozenset(map(spelling.strip_accents, spelling.normalize_words(fold_text(self.about or self.note))))

    @property
    def note(self) -> str:
        """The first note in brackets after one of its names."""
        notes = (parse_name(name, self.kind).note for name in (self.name, *self.aliases))
        return next(filter(None, notes), "")

    @property
    def blocking_keys(self) -> frozenset[str]:
        """Keys for blocking: groups that share none cannot match."""
        if self._blocking_keys is None:
            self._blocking_keys = frozenset().union(
                *(compute_blocking_keys(name, self.kind) for name in (self.name, *self.aliases))
            )
        return self._blocking_keys

    def parse_names(self, kind: str) -> _Names:
        """Parse its name and its aliases as names of this kind."""
        aliases = [parse_name(alias, kind) for alias in self.aliases]
        return parse_name(self.name, kind), aliases


class BlockingIndex:
    """Find the groups that may match another without comparing it with all of them.

    Args:
        groups: indexed as they are now; names added later are not found.
    """

    def __init__(self, groups: Sequence[EntityGroup]) -> None:
        self._groups = groups
        self._positions_by_key: dict[str, list[int]] = {}
        for position, group in enumerate(groups):
            for key in group.blocking_keys:
                self._positions_by_key.setdefault(key, []).append(position)

    def find_possible_matches(self, group: EntityGroup) -> list[EntityGroup]:
        """Return the indexed groups that share a blocking key with this one, in their original order."""
        positions = {position for key in group.blocking_keys for position in self._positions_by_key.get(key, ())}
        return [self._groups[position] for position in sorted(positions)]


def group_entities(entities: Iterable[ExtractedEntity]) -> list[EntityGroup]:
    """Group the entities of one window: the same name in the same context is one entity, listed twice by mistake."""
    members_by_key: dict[tuple[str, ...], list[ExtractedEntity]] = {}
    kinds_by_key: dict[tuple[str, ...], dict[str, None]] = {}
    for entity in sorted(entities, key=_compute_entity_sort_key):
        key = fold_text(entity.name), fold_text(entity.about), entity.known_key or ""
        kind = classify_type(entity.type)
        kinds = kinds_by_key.setdefault(key, {})
        if not kind and len(kinds) == 1:
            [kind] = kinds
        kinds[kind] = None
        members_by_key.setdefault((*key, kind), []).append(entity)
    return [EntityGroup.from_extracted(members) for members in members_by_key.values()]


def _compute_entity_sort_key(entity: ExtractedEntity) -> tuple[object, ...]:
    """Order entities independently of their arrival; those without a kind come last."""
    return (
        not classify_type(entity.type),
        fold_text(entity.name),
        fold_text(entity.about),
        entity.known_key or "",
        entity.type,
        entity.name,
        entity.about,
        entity.aliases,
        entity.ref,
    )


def match_groups(group: EntityGroup, other: EntityGroup) -> EntityMatch:
    """Rate how well two groups match by names, kinds and contexts."""
    if group.blocking_keys.isdisjoint(other.blocking_keys) or not is_compatible_kind(group.kind, other.kind):
        return EntityMatch(NameMatch.NONE)
    kinds = {group.kind, other.kind} - {""}
    kind = min(kinds) if len(kinds) == 1 else ""
    sure_of_kind = bool(group.kind and other.kind)
    name_match = _match_all_names(group.parse_names(kind), other.parse_names(kind), kind, sure_of_kind)
    if not name_match:
        return EntityMatch(NameMatch.NONE)
    has_both_contexts = bool(group.context and other.context)
    has_one_note = bool(group.note) != bool(other.note) and not has_both_contexts
    has_same_context = has_both_contexts and group.context == other.context
    is_certain = len(kinds) < 2 and has_same_context >= has_both_contexts and not has_one_note
    return EntityMatch(name_match, is_certain, has_same_context, has_different_kind=len(kinds) > 1)


def _match_all_names(names: _Names, other_names: _Names, kind: str, sure_of_kind: bool) -> NameMatch:
    """Return the best match of any two names. A shared alias says little: Toni may be short for either name."""
    (name, aliases), (other_name, other_aliases) = names, other_names
    mine, theirs = [name, *aliases], [other_name, *other_aliases]
    if len({parsed.sex for parsed in (*mine, *theirs)} - {""}) > 1:
        return NameMatch.NONE
    best = match_names(name, other_name, kind, sure_of_kind=sure_of_kind)
    for full, alias in [*((name, alias) for alias in other_aliases), *((other_name, alias) for alias in aliases)]:
        match = min(match_names(full, alias, kind, sure_of_kind=sure_of_kind), NameMatch.SHORT)
        if match and full.base != alias.base and len(alias.joined_words) < len(full.joined_words):
            match = NameMatch.MAYBE  # that Franziska Maier is called Franzi makes her no Franzi Huber
        best = max(best, match)
    shared_aliases = {alias.base for alias in aliases} & {alias.base for alias in other_aliases}
    best = max(best, NameMatch(bool(shared_aliases)))
    if best < NameMatch.EXACT and kind in ("person", "organization"):
        has_conflict = any(has_name_conflict(a, b) for a in mine for b in theirs)
        best = min(best, NameMatch.MAYBE) if has_conflict else best
    return best


_FOREIGN_KINDS = ("animal", "organization", "place")
"""Kinds that no reply gives an author (person, agent or thing): such an entity of that name is another one."""


def is_author(entity: ExtractedEntity | EntityGroup, authors: Collection[str]) -> bool:
    """Whether the entity has exactly the (folded) name of an author, a fitting kind and no context of its own."""
    kind = classify_type(entity.type)
    return fold_text(entity.name) in authors and not entity.about and kind not in _FOREIGN_KINDS


def drop_author_numbers(entities: Iterable[ExtractedEntity], authors: Collection[str]) -> list[ExtractedEntity]:
    """Remove the known keys of entities named like an author: they are that author, whatever number the reply gives."""
    return [replace(entity, known_key=None) if is_author(entity, authors) else entity for entity in entities]


def join_authors(groups: Iterable[EntityGroup], targets: Sequence[EntityGroup], authors: Collection[str]) -> None:
    """Add groups named like an author to the target of that very name, if there is one."""
    by_name = {fold_text(target.name): target for target in reversed(targets) if is_author(target, authors)}
    for group in groups:
        if is_author(group, authors) and (target := by_name.get(fold_text(group.name))):
            target.add_members(group.members)


def join_by_number(
    groups: Sequence[EntityGroup], resolved_groups: Sequence[EntityGroup], by_key: Mapping[str, EntityGroup]
) -> dict[EntityGroup, EntityGroup]:
    """Add groups to the resolved group of their number if the names agree.

    The other groups are returned with the group that each may be, except those without a quote of their name.
    """
    targets = {group: by_key[key] for group in groups if (key := group.members[0].known_key) in by_key and key}
    index = BlockingIndex(resolved_groups if targets else ())
    matches = {group: target for group, target in targets.items() if _is_best_match(group, target, index)}
    for group, target in matches.items():
        target.add_members(group.members)
    return {
        group: target
        for group, target in targets.items()
        if group not in matches and is_compatible_kind(group.kind, target.kind) and group.quotes
    }


def _is_best_match(group: EntityGroup, target: EntityGroup, index: BlockingIndex) -> bool:
    rating = _rate_match(group, target)
    others = index.find_possible_matches(group)
    return rating[0] >= NameMatch.SHORT and all(_rate_match(group, other) <= rating for other in others)


def _rate_match(group: EntityGroup, target: EntityGroup) -> tuple[NameMatch, bool, bool]:
    match = match_groups(group, target)
    return match.name_match, not match.has_different_kind, match.has_same_context


def count_refused_numbers(
    entities: Iterable[ExtractedEntity], resolution: EntityResolution, known_entities: Collection[KnownEntity]
) -> int:
    """Count the entities that were given the number of a known entity but resolved to another."""
    targets = {entity.key: resolution.merge_targets.get(entity.key, entity.key) for entity in known_entities}
    current_keys = {key: targets[entity.key] for entity in known_entities for key in (*entity.merged_keys, entity.key)}
    return sum(
        resolution.keys_by_ref[entity.ref] != current_keys[entity.known_key]
        for entity in entities
        if entity.known_key and entity.known_key in current_keys
    )


def find_name_doubts(
    groups: Sequence[EntityGroup], known_entities: Sequence[KnownEntity]
) -> list[tuple[EntityGroup, tuple[EntityGroup, ...]]]:
    """Find known entities that gained the name of another known entity as a new alias, and those others."""
    known_names = {entity.key: {entity.name, *entity.aliases} for entity in known_entities}
    positions_by_name: dict[str, list[int]] = {}
    for position, group in enumerate(groups):
        if group.is_known:
            positions_by_name.setdefault(fold_text(group.name), []).append(position)
    doubts: list[tuple[EntityGroup, tuple[EntityGroup, ...]]] = []
    for group in groups:
        if not (group.is_known and group.members):
            continue
        new_names = {fold_text(name) for name in group.aliases} - set(map(fold_text, known_names[group.key]))
        positions = sorted(position for name in new_names for position in positions_by_name.get(name, ()))
        others = tuple(
            other
            for other in (groups[position] for position in positions)
            if is_compatible_kind(group.kind, other.kind) and not other.windows & group.windows
        )
        if others:
            doubts.append((group, others))
    return doubts


def has_namesake(group: EntityGroup, index: BlockingIndex) -> bool:
    """Whether its short name fits another group too: beside Inés Costa, an Inés need not be Inés Moreau."""
    others = (other for other in index.find_possible_matches(group) if other is not group)
    return any(match_groups(group, other).name_match >= NameMatch.SHORT for other in others)
