"""Decide whether to trust a reply that identifies an entity with a known one by its number, or with an author.

Models easily get a number wrong, a name less so. A number counts if the names agree with it; if they say nothing, it
raises a doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from adk_graph_memory.consolidation import entity_groups
from adk_graph_memory.consolidation.entity_groups import BlockingIndex, EntityGroup
from adk_graph_memory.consolidation.name_matching import NameMatch
from adk_graph_memory.records import EntityResolution, ExtractedEntity, KnownEntity, fold_text

_FOREIGN_KINDS = ("animal", "organization", "place")
"""Kinds that no reply gives an author (person, agent or thing): such an entity of that name is another one."""


def is_author(entity: ExtractedEntity | EntityGroup, authors: Collection[str]) -> bool:
    """Whether the entity has exactly the (folded) name of an author, a fitting kind and no context of its own."""
    kind = entity_groups.classify_type(entity.type)
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
        if group not in matches and entity_groups.is_compatible_kind(group.kind, target.kind) and group.quotes
    }


def _is_best_match(group: EntityGroup, target: EntityGroup, index: BlockingIndex) -> bool:
    rating = _rate_match(group, target)
    others = index.find_possible_matches(group)
    return rating[0] >= NameMatch.SHORT and all(_rate_match(group, other) <= rating for other in others)


def _rate_match(group: EntityGroup, target: EntityGroup) -> tuple[NameMatch, bool, bool]:
    match = entity_groups.match_groups(group, target)
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
            if entity_groups.is_compatible_kind(group.kind, other.kind) and not other.windows & group.windows
        )
        if others:
            doubts.append((group, others))
    return doubts


def has_namesake(group: EntityGroup, index: BlockingIndex) -> bool:
    """Whether its short name fits another group too: beside Inés Costa, an Inés need not be Inés Moreau."""
    others = (other for other in index.find_possible_matches(group) if other is not group)
    return any(entity_groups.match_groups(group, other).name_match >= NameMatch.SHORT for other in others)
