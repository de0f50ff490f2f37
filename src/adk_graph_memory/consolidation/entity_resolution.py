"""Extracted and known entities go in; who is who comes out, and what no rule may decide, as doubts.

One window of the conversation is settled at a time. Within it every entity seeks its bearer among the known and those
of earlier windows, the surest match first, and a bearer goes to one entity of a window only: who read it told them
apart. A wrong merge is worse than none: where two bearers fit, or contexts differ, it is a doubt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from adk_graph_memory.consolidation import entity_groups, entity_numbers
from adk_graph_memory.consolidation.entity_groups import BlockingIndex, EntityGroup, EntityMatch
from adk_graph_memory.consolidation.name_matching import NameMatch
from adk_graph_memory.records import (
    EntityDoubt,
    EntityResolution,
    ExtractedEntity,
    KnownEntity,
    PlannedEntity,
    digest,
    fold_text,
)
from adk_graph_memory.records.turns import Role

_GroupDoubt = tuple[EntityGroup, tuple[EntityGroup, ...]]


def make_entity_key(name: str) -> str:
    """The key of an entity of this name: names that differ only in case, width or spacing share it."""
    return digest("entity", fold_text(name))


def list_entity_keys(entity: ExtractedEntity) -> list[str]:
    """Every key under which the entity may already be known."""
    known = [entity.known_key] if entity.known_key else []
    return [*known, *(make_entity_key(name) for name in (entity.name, *entity.aliases))]


def add_authors(
    resolution: EntityResolution, authors: Iterable[tuple[str, Role]], known: Iterable[KnownEntity]
) -> EntityResolution:
    """The resolution with everybody who speaks, whether or not anything is said of them."""
    there: list[KnownEntity | PlannedEntity] = [*known, *resolution.planned_entities]
    names = {fold_text(name) for entity in there for name in (entity.name, *entity.aliases)}
    keys = {entity.key for entity in there}
    new = {
        make_entity_key(name): PlannedEntity(
            make_entity_key(name), name, "agent" if role == "model" else "person", (), is_new=True
        )
        for name, role in authors
        if fold_text(name) not in names and make_entity_key(name) not in keys
    }
    planned = sorted((*resolution.planned_entities, *new.values()), key=lambda entity: entity.key)
    return replace(resolution, planned_entities=tuple(planned))


def resolve_entities(
    entities: Sequence[ExtractedEntity], known: Sequence[KnownEntity], authors: Iterable[tuple[str, Role]] = ()
) -> EntityResolution:
    """The key of each extracted entity, the entities to create or to extend, and the doubts.

    Args:
        entities: in any order.
        known: in any order; all those of whom an extracted entity may be one.
        authors: whose turns they were read in.
    """
    speaking = {fold_text(name) for name, _ in authors}
    entities = entity_numbers.drop_author_numbers(entities, speaking)
    held = [EntityGroup.from_known_entity(entity) for entity in sorted(known, key=lambda entity: entity.key)]
    doubts: list[_GroupDoubt] = []
    for window in sorted({entity.window for entity in entities}):
        groups = entity_groups.group_entities(entity for entity in entities if entity.window == window)
        new = _match_window(groups, held, speaking)
        held += [bearer for bearer, _ in new]
        doubts += [(bearer, others) for bearer, others in new if others]
    _assign_keys(held)
    doubts += entity_numbers.find_name_doubts(held, known)
    refs = {member.ref: bearer for bearer in held for member in bearer.members}
    return EntityResolution(
        keys_by_ref={ref: refs[ref].key for ref in sorted(refs)},
        planned_entities=tuple(
            sorted((_plan_entity(bearer) for bearer in held if bearer.members), key=lambda entity: entity.key)
        ),
        doubts=tuple(
            sorted(
                (
                    EntityDoubt(bearer.members[0].ref, tuple(sorted(other.key for other in others)), bearer.quotes)
                    for bearer, others in doubts
                ),
                key=lambda doubt: doubt.ref,
            )
        ),
    )


def answer_doubts(
    resolution: EntityResolution, same: Mapping[int, str | None], known: Sequence[KnownEntity]
) -> EntityResolution:
    """The resolution with its doubts answered.

    Args:
        resolution: as :func:`resolve_entities` gave it.
        same: the key of the entity that a reference means, None for somebody new. An answer to no doubt, or with a
            key that the doubt does not offer, is passed over; a doubt without an answer is kept.
        known: the same that the resolution was made from.
    """
    by_key = {entity.key: entity for entity in known}
    meant = {key: key for key in (*by_key, *resolution.keys_by_ref.values())}
    for doubt in sorted(resolution.doubts, key=lambda doubt: (resolution.keys_by_ref[doubt.ref] in by_key, doubt.ref)):
        answer = same.get(doubt.ref)
        if answer is not None and answer in doubt.candidate_keys:
            meant = _merge_keys(meant, resolution.keys_by_ref[doubt.ref], answer, by_key)
    merged: dict[str, list[PlannedEntity]] = defaultdict(list)
    for planned in resolution.planned_entities:
        merged[meant[planned.key]].append(planned)
    gone: dict[str, list[KnownEntity]] = defaultdict(list)
    for key, kept in meant.items():
        if key in by_key and key != kept:
            gone[kept].append(by_key[key])
    return EntityResolution(
        keys_by_ref={ref: meant[key] for ref, key in resolution.keys_by_ref.items()},
        planned_entities=tuple(
            _merge_planned_entities(key, merged[key], by_key.get(key), gone[key]) for key in sorted(merged)
        ),
        doubts=tuple(doubt for doubt in resolution.doubts if doubt.ref not in same),
    )


def _merge_keys(meant: Mapping[str, str], one: str, other: str, known: Collection[str]) -> dict[str, str]:
    """Who each is once these two are one."""
    ends = {meant[one], meant[other]}
    if one in known:  # somebody known was called by the name of somebody else known: they are one
        kept = meant[one]
    elif len(ends.intersection(known)) == 2:  # whoever is new makes nobody of two whom the graph tells apart
        return dict(meant)
    else:
        kept = min(ends, key=lambda key: (key not in known, key != meant[other], key))
    return {key: kept if end in ends else end for key, end in meant.items()}


def _merge_planned_entities(
    key: str, planned: Sequence[PlannedEntity], known: KnownEntity | None, gone: Sequence[KnownEntity]
) -> PlannedEntity:
    parts = sorted(planned, key=lambda part: part.key != key)
    base = PlannedEntity(key, known.name, known.type, (), False, known.about) if known else parts[0]
    everyone: list[PlannedEntity | KnownEntity] = [base, *parts, *gone]
    names = {name for part in everyone for name in (part.name, *part.aliases)} - {base.name}
    about = next((part.about for part in everyone if part.about), "")
    absorbs = tuple(sorted(entity.key for entity in gone))
    return replace(base, aliases=tuple(sorted(names)), about=about, merged_keys=absorbs)


class _GroupVerdict(NamedTuple):
    """Whose name it is; or, if that is open, whose it may be."""

    group: EntityGroup | None = None
    rank: tuple[bool, int] = (False, 0)
    possible_groups: tuple[EntityGroup, ...] = ()


def _match_window(
    pending: list[EntityGroup], held: Sequence[EntityGroup], authors: Collection[str]
) -> list[_GroupDoubt]:
    """Those of one window who are somebody new, each with those whom it may be; the others joined their bearers."""
    by_key = {key: bearer for bearer in held if bearer.is_known for key in (*bearer.merged_keys, bearer.key)}
    found: list[_GroupDoubt] = []
    entity_numbers.join_authors(pending, held, authors)
    numbered = entity_numbers.join_by_number(pending, held, by_key)
    taken = {member.ref for bearer in held for member in bearer.members}
    pending = [group for group in pending if group.members[0].ref not in taken]
    while True:
        near = BlockingIndex(held)
        verdicts = [(one, _weigh_number(_find_match(one, near), numbered.get(one))) for one in pending]
        best = max((verdict.rank for _, verdict in verdicts if verdict.group), default=None)
        if best is None:
            break
        wanted: dict[int, list[tuple[EntityGroup, EntityGroup]]] = defaultdict(list)
        for group, verdict in verdicts:
            if verdict.group and verdict.rank == best:
                wanted[id(verdict.group)].append((group, verdict.group))
        pending = [group for group, verdict in verdicts if not verdict.group or verdict.rank != best]
        for wishes in wanted.values():
            given, losers = _assign_members(wishes)
            if given:
                pending += losers
            else:
                found += [(group, (wishes[0][1],)) for group in losers]
    return found + [(group, verdict.possible_groups) for group, verdict in verdicts]


def _assign_members(wishes: Sequence[tuple[EntityGroup, EntityGroup]]) -> tuple[bool, list[EntityGroup]]:
    """Gives the bearer to the one who wants it, or whose context is its own; and those who go without."""
    fitting = [group for group, bearer in wishes if len(wishes) == 1 or group.context == bearer.context]
    if len(fitting) == 1:
        wishes[0][1].add_members(fitting[0].members)
    return len(fitting) == 1, [group for group, _ in wishes if [group] != fitting]


def _find_match(group: EntityGroup, near: BlockingIndex) -> _GroupVerdict:
    free = [bearer for bearer in near.find_possible_matches(group) if not bearer.windows & group.windows]
    related = [(bearer, found) for bearer in free if (found := entity_groups.match_groups(group, bearer)).name_match]
    related = [pair for pair in related if not pair[1].has_different_kind] or related
    if not related:
        return _GroupVerdict()
    fitting = [(bearer, found) for bearer, found in related if found.is_certain and found.name_match >= NameMatch.SHORT]
    agreed = _select_closest([pair for pair in fitting if pair[1].has_same_context])
    if len(agreed) == 1 and (agreed[0][1].name_match >= NameMatch.LOOSE or len(fitting) == 1):
        return _GroupVerdict(agreed[0][0], (True, agreed[0][1].name_match))
    here = [pair for pair in fitting if pair[0].members and pair[1].name_match is NameMatch.EXACT]
    if len(here) == 1:  # the same name in the same conversation
        return _GroupVerdict(here[0][0], (False, NameMatch.EXACT))
    best = _select_closest(related)
    bearer, found = best[0]
    rivals = best if found.name_match >= NameMatch.LOOSE else related
    is_short = found.name_match is NameMatch.SHORT
    if len(rivals) > 1 or best[0] not in fitting or (is_short and entity_numbers.has_namesake(bearer, near)):
        return _GroupVerdict(possible_groups=tuple(other for other, _ in related))
    return _GroupVerdict(bearer, (False, found.name_match))


def _weigh_number(verdict: _GroupVerdict, numbered: EntityGroup | None) -> _GroupVerdict:
    """The verdict beside the one whose number the reply gave: where no name is the same, it may be meant."""
    if numbered is None or numbered is verdict.group or verdict.rank[1] >= NameMatch.LOOSE:
        return verdict
    short = (verdict.group,) if verdict.group else ()
    return _GroupVerdict(possible_groups=tuple(dict.fromkeys((*short, *verdict.possible_groups, numbered))))


def _select_closest(pairs: Sequence[tuple[EntityGroup, EntityMatch]]) -> list[tuple[EntityGroup, EntityMatch]]:
    most = max((found.name_match for _, found in pairs), default=None)
    return [pair for pair in pairs if pair[1].name_match is most]


def _assign_keys(held: Sequence[EntityGroup]) -> None:
    """Each new bearer gets the key of its name; namesakes but the first one of their name and context.

    One whose name was taken for another's, and who is listed beside that one now, is who it was before.
    """
    used = {bearer.key for bearer in held if bearer.is_known}
    for other in [bearer for bearer in held if bearer.merged_keys]:
        for bearer in [new for new in held if not new.is_known and not new.key]:
            if make_entity_key(bearer.name) in other.merged_keys and bearer.windows & other.windows:
                bearer.key, bearer.split_from = make_entity_key(bearer.name), other.key
        used |= set(other.merged_keys)
    new = [bearer for bearer in held if not bearer.is_known]
    for bearer in sorted(new, key=lambda new: (fold_text(new.about), new.kind, new.name, sorted(new.aliases))):
        if bearer.key:
            continue
        bearer.key = make_entity_key(bearer.name)
        parts, n = ("entity", fold_text(bearer.name), fold_text(bearer.about), bearer.kind), 1
        while bearer.key in used:
            bearer.key, n = digest(*parts, *([str(n)] if n > 1 else [])), n + 1
        used.add(bearer.key)


def _plan_entity(bearer: EntityGroup) -> PlannedEntity:
    names = {name for member in bearer.members for name in (member.name, *member.aliases)} - {bearer.name}
    is_new = not bearer.is_known and not bearer.split_from
    aliases = tuple(sorted(names))
    return PlannedEntity(
        bearer.key, bearer.name, bearer.type, aliases, is_new, bearer.about, split_from=bearer.split_from
    )
