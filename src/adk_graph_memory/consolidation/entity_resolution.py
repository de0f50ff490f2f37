"""Resolve extracted entities to known or new ones: who is who, and which doubts no rule may decide.

Windows are resolved one after another. The entities of a window are matched with known ones and those of earlier
windows, the surest match first. No two entities of a window get the same match, for the extractor told them apart.
A wrong merge is worse than none: if two candidates fit, or contexts differ, it is a doubt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from adk_graph_memory.consolidation import entity_groups
from adk_graph_memory.consolidation.entity_groups import BlockingIndex, EntityGroup, EntityMatch
from adk_graph_memory.consolidation.names import NameMatch
from adk_graph_memory.language.text import digest, fold_text
from adk_graph_memory.records.extractions import ExtractedEntity
from adk_graph_memory.records.facts import EntityDoubt, EntityResolution, EntityWrite, KnownEntity
from adk_graph_memory.records.scopes import OWNER_NAME
from adk_graph_memory.records.turns import Role


def apply_owner_names(
    entities: Iterable[ExtractedEntity], known_entities: Sequence[KnownEntity]
) -> list[ExtractedEntity]:
    """Let a name mean whom the owner said that it means, and nobody else."""
    entities = list(entities)
    for known in known_entities:
        if known.own_names:
            entities = [_unite_name(entity, known) for entity in entities]
        if known.foreign_names:
            entities = [_part_names(entity, known) for entity in entities]
    return entities


def _unite_name(entity: ExtractedEntity, known: KnownEntity) -> ExtractedEntity:
    """Name the entity as the known one if that is so called; two that a reply lists apart become one."""
    if fold_text(entity.name) not in (fold_text(known.name), *known.own_names):
        return entity
    return replace(entity, name=known.name, type=known.type, about=known.about, known_key=known.key)


def _part_names(entity: ExtractedEntity, known: KnownEntity) -> ExtractedEntity:
    """Take away what ties an entity to the known one that its name is foreign to, or that its aliases are."""
    if fold_text(entity.name) in known.foreign_names:
        aliases = tuple(alias for alias in entity.aliases if fold_text(alias) != fold_text(known.name))
        is_tied = entity.known_key in (known.key, *known.merged_keys)
        return replace(entity, aliases=aliases, known_key=None if is_tied else entity.known_key)
    if fold_text(known.name) == fold_text(entity.name) or entity.known_key == known.key:
        aliases = tuple(alias for alias in entity.aliases if fold_text(alias) not in known.foreign_names)
        return replace(entity, aliases=aliases)
    return entity


_GroupDoubt = tuple[EntityGroup, tuple[EntityGroup, ...]]


def digest_entity_name(name: str) -> str:
    """Return the key of an entity of this name; names that differ only in case, width or spacing share a key."""
    return digest("entity", fold_text(name))


OWNER_KEY = digest_entity_name(OWNER_NAME)
"""The key of the entity that the owner of a memory is."""


def list_entity_keys(entity: ExtractedEntity) -> list[str]:
    """List every key under which the graph may know the entity."""
    known_keys = [entity.known_key] if entity.known_key else []
    return [*known_keys, *(digest_entity_name(name) for name in (entity.name, *entity.aliases))]


def add_authors(
    resolution: EntityResolution, authors: Iterable[tuple[str, Role]], known_entities: Iterable[KnownEntity]
) -> EntityResolution:
    """Add every author to the resolution, whether or not a fact mentions them."""
    entities: list[KnownEntity | EntityWrite] = [*known_entities, *resolution.planned_entities]
    names = {fold_text(name) for entity in entities for name in (entity.name, *entity.aliases)}
    keys = {entity.key for entity in entities}
    new = {
        digest_entity_name(name): EntityWrite(
            digest_entity_name(name), name, "agent" if role == "model" else "person", (), is_new=True
        )
        for name, role in authors
        if fold_text(name) not in names and digest_entity_name(name) not in keys
    }
    planned = sorted((*resolution.planned_entities, *new.values()), key=lambda entity: entity.key)
    return replace(resolution, planned_entities=tuple(planned))


def resolve_entities(
    entities: Sequence[ExtractedEntity], known_entities: Sequence[KnownEntity], authors: Iterable[tuple[str, Role]] = ()
) -> EntityResolution:
    """Find the key of each extracted entity, the entities to create or extend, and the doubts.

    Args:
        entities: the extracted entities, in any order.
        known_entities: every known entity that an extracted one may be, in any order.
        authors: name and role of the authors of the turns.
    """
    author_names = {fold_text(name) for name, _ in authors}
    entities = apply_owner_names(entities, known_entities)
    entities = entity_groups.drop_author_numbers(entities, author_names)
    groups = [EntityGroup.from_known_entity(entity) for entity in sorted(known_entities, key=lambda entity: entity.key)]
    doubts: list[_GroupDoubt] = []
    for window in sorted({entity.window for entity in entities}):
        pending = entity_groups.group_entities(entity for entity in entities if entity.window == window)
        new = _match_window(pending, groups, author_names)
        groups += [group for group, _ in new]
        doubts += [(group, others) for group, others in new if others]
    _assign_keys(groups)
    doubts += entity_groups.find_name_doubts(groups, known_entities)
    groups_by_ref = {member.ref: group for group in groups for member in group.members}
    return EntityResolution(
        keys_by_ref={ref: groups_by_ref[ref].key for ref in sorted(groups_by_ref)},
        planned_entities=tuple(
            sorted((_plan_entity(group) for group in groups if group.members), key=lambda entity: entity.key)
        ),
        doubts=tuple(
            sorted(
                (
                    EntityDoubt(group.members[0].ref, tuple(sorted(other.key for other in others)), group.quotes)
                    for group, others in doubts
                ),
                key=lambda doubt: doubt.ref,
            )
        ),
    )


def answer_doubts(
    resolution: EntityResolution, answers: Mapping[int, str | None], known_entities: Sequence[KnownEntity]
) -> EntityResolution:
    """Apply a model's answers to the doubts of a resolution.

    Args:
        resolution: the result of :func:`resolve_entities`.
        answers: reference in doubt → key of the entity it means, or None for a new entity. An answer to no doubt, or
            with a key that the doubt does not offer, is ignored; a doubt without an answer stays.
        known_entities: the known entities that the resolution was made from.
    """
    by_key = {entity.key: entity for entity in known_entities}
    new_keys = {key: key for key in (*by_key, *resolution.keys_by_ref.values())}
    for doubt in sorted(resolution.doubts, key=lambda doubt: (resolution.keys_by_ref[doubt.ref] in by_key, doubt.ref)):
        answer = answers.get(doubt.ref)
        if answer is not None and answer in doubt.candidate_keys:
            new_keys = _merge_keys(new_keys, resolution.keys_by_ref[doubt.ref], answer, by_key)
    planned_by_key: dict[str, list[EntityWrite]] = defaultdict(list)
    for entity in resolution.planned_entities:
        planned_by_key[new_keys[entity.key]].append(entity)
    reason = "one is called by the other's name"
    quoted_reasons = {
        resolution.keys_by_ref[doubt.ref]: f"{reason}: “{doubt.quotes[0]}”"
        for doubt in resolution.doubts
        if doubt.quotes
    }
    absorbed_by_key: dict[str, list[KnownEntity]] = defaultdict(list)
    for key, new_key in new_keys.items():
        if key in by_key and key != new_key:
            absorbed_by_key[new_key].append(by_key[key])
    return EntityResolution(
        keys_by_ref={ref: new_keys[key] for ref, key in resolution.keys_by_ref.items()},
        planned_entities=tuple(
            replace(
                _merge_planned_entities(key, planned_by_key[key], by_key.get(key), absorbed_by_key[key]),
                merge_reason=quoted_reasons.get(key, reason) if absorbed_by_key[key] else "",
            )
            for key in sorted(planned_by_key)
        ),
        doubts=tuple(doubt for doubt in resolution.doubts if doubt.ref not in answers),
    )


def _merge_keys(new_keys: Mapping[str, str], key: str, answer: str, known_keys: Collection[str]) -> dict[str, str]:
    """Return the new key of every entity once these two are one."""
    both = {new_keys[key], new_keys[answer]}
    if key in known_keys:  # a known entity was called by the name of another known one: they are the same
        target = new_keys[key]
    elif len(both.intersection(known_keys)) == 2:  # a new entity must not merge two that the graph tells apart
        return dict(new_keys)
    else:
        target = min(both, key=lambda key: (key not in known_keys, key != new_keys[answer], key))
    return {key: target if new_key in both else new_key for key, new_key in new_keys.items()}


def _merge_planned_entities(
    key: str, parts: Sequence[EntityWrite], known_entity: KnownEntity | None, others: Sequence[KnownEntity]
) -> EntityWrite:
    parts = sorted(parts, key=lambda part: part.key != key)
    base = (
        EntityWrite(key, known_entity.name, known_entity.type, (), False, known_entity.about)
        if known_entity
        else parts[0]
    )
    entities: list[EntityWrite | KnownEntity] = [base, *parts, *others]
    names = {name for entity in entities for name in (entity.name, *entity.aliases)} - {base.name}
    about = next((entity.about for entity in entities if entity.about), "")
    merged_keys = tuple(sorted(other.key for other in others))
    return replace(base, aliases=tuple(sorted(names)), about=about, merged_keys=merged_keys)


class _GroupVerdict(NamedTuple):
    """The group that an entity belongs to or, if that is open, the groups it may belong to."""

    group: EntityGroup | None = None
    rank: tuple[bool, int] = (False, 0)
    possible_groups: tuple[EntityGroup, ...] = ()


def _match_window(
    pending: list[EntityGroup], resolved_groups: Sequence[EntityGroup], authors: Collection[str]
) -> list[_GroupDoubt]:
    """Add the groups of one window to their matches; return the new ones, each with the groups it may be."""
    by_key = {key: group for group in resolved_groups if group.is_known for key in (*group.merged_keys, group.key)}
    new: list[_GroupDoubt] = []
    entity_groups.join_authors(pending, resolved_groups, authors)
    by_number = entity_groups.join_by_number(pending, resolved_groups, by_key)
    joined_refs = {member.ref for group in resolved_groups for member in group.members}
    pending = [group for group in pending if group.members[0].ref not in joined_refs]
    while pending:
        index = BlockingIndex(resolved_groups)
        verdicts = [(group, _weigh_number(_find_match(group, index), by_number.get(group))) for group in pending]
        best = max((verdict.rank for _, verdict in verdicts if verdict.group), default=None)
        if best is None:
            return new + [(group, verdict.possible_groups) for group, verdict in verdicts]
        matches_by_target: dict[int, list[tuple[EntityGroup, EntityGroup]]] = defaultdict(list)
        for group, verdict in verdicts:
            if verdict.group and verdict.rank == best:
                matches_by_target[id(verdict.group)].append((group, verdict.group))
        pending = [group for group, verdict in verdicts if not verdict.group or verdict.rank != best]
        for matches in matches_by_target.values():
            is_assigned, rest = _assign_members(matches)
            if is_assigned:
                pending += rest
            else:
                new += [(group, (matches[0][1],)) for group in rest]
    return new


def _assign_members(matches: Sequence[tuple[EntityGroup, EntityGroup]]) -> tuple[bool, list[EntityGroup]]:
    """Add the only group that matches the target, or the only one of its context; return whether, and the rest."""
    eligible = [group for group, target in matches if len(matches) == 1 or group.context == target.context]
    if len(eligible) == 1:
        matches[0][1].add_members(eligible[0].members)
    return len(eligible) == 1, [group for group, _ in matches if [group] != eligible]


def _find_match(group: EntityGroup, index: BlockingIndex) -> _GroupVerdict:
    possible = [other for other in index.find_possible_matches(group) if not other.windows & group.windows]
    free = [other for other in possible if fold_text(group.name) not in other.foreign_names]
    related = [(other, match) for other in free if (match := entity_groups.match_groups(group, other)).name_match]
    related = [pair for pair in related if not pair[1].has_different_kind] or related
    if not related:
        return _GroupVerdict()
    certain = [(other, match) for other, match in related if match.is_certain and match.name_match >= NameMatch.SHORT]
    same_context = _select_closest([pair for pair in certain if pair[1].has_same_context])
    if len(same_context) == 1 and (same_context[0][1].name_match >= NameMatch.LOOSE or len(certain) == 1):
        return _GroupVerdict(same_context[0][0], (True, same_context[0][1].name_match))
    same_name = [pair for pair in certain if pair[0].members and pair[1].name_match is NameMatch.EXACT]
    if len(same_name) == 1:  # the same name in the same conversation
        return _GroupVerdict(same_name[0][0], (False, NameMatch.EXACT))
    closest = _select_closest(related)
    target, match = closest[0]
    rivals = closest if match.name_match >= NameMatch.LOOSE else related
    is_short = match.name_match is NameMatch.SHORT
    if len(rivals) > 1 or closest[0] not in certain or (is_short and entity_groups.has_namesake(target, index)):
        return _GroupVerdict(possible_groups=tuple(other for other, _ in related))
    return _GroupVerdict(target, (False, match.name_match))


def _weigh_number(verdict: _GroupVerdict, numbered_group: EntityGroup | None) -> _GroupVerdict:
    """Turn a verdict that rests on a short name into a doubt if the reply's number names another group."""
    if numbered_group is None or numbered_group is verdict.group or verdict.rank[1] >= NameMatch.LOOSE:
        return verdict
    short_match = (verdict.group,) if verdict.group else ()
    return _GroupVerdict(possible_groups=tuple(dict.fromkeys((*short_match, *verdict.possible_groups, numbered_group))))


def _select_closest(pairs: Sequence[tuple[EntityGroup, EntityMatch]]) -> list[tuple[EntityGroup, EntityMatch]]:
    best = max((match.name_match for _, match in pairs), default=None)
    return [pair for pair in pairs if pair[1].name_match is best]


def _assign_keys(groups: Sequence[EntityGroup]) -> None:
    """Give each new group the key of its name; further groups of the same name get a key of name and context.

    A merged entity gets its old key back once a window lists it beside the entity it was merged into.
    """
    used_keys = {group.key for group in groups if group.is_known}
    for target in [group for group in groups if group.merged_keys]:
        for group in [group for group in groups if not group.is_known and not group.key]:
            if digest_entity_name(group.name) in target.merged_keys and group.windows & target.windows:
                group.key, group.split_from = digest_entity_name(group.name), target.key
        used_keys |= set(target.merged_keys)
    new = [group for group in groups if not group.is_known]
    for group in sorted(new, key=lambda group: (fold_text(group.about), group.kind, group.name, sorted(group.aliases))):
        if group.key:
            continue
        group.key = digest_entity_name(group.name)
        parts, n = ("entity", fold_text(group.name), fold_text(group.about), group.kind), 1
        while group.key in used_keys:
            group.key, n = digest(*parts, *([str(n)] if n > 1 else [])), n + 1
        used_keys.add(group.key)


def _plan_entity(group: EntityGroup) -> EntityWrite:
    names = {name for member in group.members for name in (member.name, *member.aliases)}
    aliases, is_new = tuple(sorted(names - {group.name})), not group.is_known and not group.split_from
    return EntityWrite(group.key, group.name, group.type, aliases, is_new, group.about, split_from=group.split_from)
