"""Decide whether to believe a reply that takes somebody for an author or for a known entity by its number.

A number is easily one off, a name is not: the number counts where the names agree with it, and is no more than a doubt
where they say nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from adk_graph_memory.consolidation import entity_groups
from adk_graph_memory.consolidation.entity_groups import BlockingIndex, EntityGroup
from adk_graph_memory.consolidation.name_matching import NameMatch
from adk_graph_memory.records import EntityResolution, ExtractedEntity, KnownEntity, fold_text

_AUTHOR_KINDS = ("", "person", "other")
"""What a reply may call an author: a person, an agent, or some thing; a place or a pet of that name is another."""


def is_author(one: ExtractedEntity | EntityGroup, authors: Collection[str]) -> bool:
    """Whether it is named exactly like one of these authors (folded names), and nothing tells it from them."""
    return fold_text(one.name) in authors and not one.about and entity_groups.classify_type(one.type) in _AUTHOR_KINDS


def drop_author_numbers(entities: Iterable[ExtractedEntity], authors: Collection[str]) -> list[ExtractedEntity]:
    """The entities; whoever is named like an author is that author, whatever number the reply gives."""
    return [replace(one, known_key=None) if is_author(one, authors) else one for one in entities]


def join_authors(groups: Iterable[EntityGroup], held: Sequence[EntityGroup], authors: Collection[str]) -> None:
    """Give those named like an author to the bearer of that very name, if there is one."""
    known = {fold_text(bearer.name): bearer for bearer in reversed(held) if is_author(bearer, authors)}
    for group in groups:
        if is_author(group, authors) and (bearer := known.get(fold_text(group.name))):
            bearer.add_members(group.members)


def join_by_number(
    groups: Sequence[EntityGroup], held: Sequence[EntityGroup], by_key: Mapping[str, EntityGroup]
) -> dict[EntityGroup, EntityGroup]:
    """Give those whose name fits their number to the bearer it stands for; the others whom it may stand for.

    Only words that hold the new name make it a doubt: without them the number is passed over.
    """
    numbered = {group: by_key[key] for group in groups if (key := group.members[0].known_key) in by_key and key}
    near = BlockingIndex(held if numbered else ())
    fitting = {group: bearer for group, bearer in numbered.items() if _is_best_match(group, bearer, near)}
    for group, bearer in fitting.items():
        bearer.add_members(group.members)
    return {
        group: bearer
        for group, bearer in numbered.items()
        if group not in fitting and entity_groups.is_compatible_kind(group.kind, bearer.kind) and group.quotes
    }


def _is_best_match(group: EntityGroup, bearer: EntityGroup, near: BlockingIndex) -> bool:
    """Whether its name or an alias is the group's, and nobody else's more so."""
    mine = _rate_match(group, bearer)
    return mine[0] >= NameMatch.SHORT and all(
        _rate_match(group, other) <= mine for other in near.find_possible_matches(group)
    )


def _rate_match(group: EntityGroup, bearer: EntityGroup) -> tuple[NameMatch, bool, bool]:
    found = entity_groups.match_groups(group, bearer)
    return found.name_match, not found.has_different_kind, found.has_same_context


def count_refused_numbers(
    entities: Iterable[ExtractedEntity], resolution: EntityResolution, known: Iterable[KnownEntity]
) -> int:
    """How many were given the number of a known entity and are somebody else."""
    meant = {
        key: resolution.merge_targets.get(one.key, one.key) for one in known for key in (*one.merged_keys, one.key)
    }
    numbered = [(one, meant[one.known_key]) for one in entities if one.known_key in meant and one.known_key]
    return sum(resolution.keys_by_ref[one.ref] != key for one, key in numbered)


def find_name_doubts(
    held: Sequence[EntityGroup], known: Sequence[KnownEntity]
) -> list[tuple[EntityGroup, tuple[EntityGroup, ...]]]:
    """Those known who were given, as a name they had not borne before, the very name of somebody else known."""
    borne = {entity.key: {entity.name, *entity.aliases} for entity in known}
    places: dict[str, list[int]] = {}
    for place, bearer in enumerate(held):
        if bearer.is_known:
            places.setdefault(fold_text(bearer.name), []).append(place)
    found: list[tuple[EntityGroup, tuple[EntityGroup, ...]]] = []
    for bearer in (one for one in held if one.is_known and one.members):
        names = {fold_text(name) for name in bearer.aliases} - set(map(fold_text, borne[bearer.key]))
        others = [held[place] for place in sorted(place for name in names for place in places.get(name, ()))]
        perhaps = [
            one
            for one in others
            if entity_groups.is_compatible_kind(bearer.kind, one.kind) and not one.windows & bearer.windows
        ]
        found += [(bearer, tuple(perhaps))] * bool(perhaps)
    return found


def has_namesake(bearer: EntityGroup, near: BlockingIndex) -> bool:
    """Whether a short name may be another's as well: an Inés, when there is also an Inés Costa, need not be Moreau."""
    others = (other for other in near.find_possible_matches(bearer) if other is not bearer)
    return any(entity_groups.match_groups(bearer, other).name_match >= NameMatch.SHORT for other in others)
