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

from adk_graph_memory.consolidation import bearers, claims
from adk_graph_memory.consolidation.bearers import Bearer, Hooked, Relation
from adk_graph_memory.consolidation.names import Likeness
from adk_graph_memory.records import Doubt, ExtractedEntity, KnownEntity, PlannedEntity, Resolution, digest, folded
from adk_graph_memory.records.turns import Role

_Doubted = tuple[Bearer, tuple[Bearer, ...]]


def key_of(name: str) -> str:
    """The key of an entity of this name: names that differ only in case, width or spacing share it."""
    return digest("entity", folded(name))


def keys_of(entity: ExtractedEntity) -> list[str]:
    """Every key under which the entity may already be known."""
    known = [entity.known_key] if entity.known_key else []
    return [*known, *(key_of(name) for name in (entity.name, *entity.aliases))]


def with_authors(
    resolution: Resolution, authors: Iterable[tuple[str, Role]], known: Iterable[KnownEntity]
) -> Resolution:
    """The resolution with everybody who speaks, whether or not anything is said of them."""
    there: list[KnownEntity | PlannedEntity] = [*known, *resolution.planned]
    names = {folded(name) for entity in there for name in (entity.name, *entity.aliases)}
    keys = {entity.key for entity in there}
    new = {
        key_of(name): PlannedEntity(key_of(name), name, "agent" if role == "model" else "person", (), is_new=True)
        for name, role in authors
        if folded(name) not in names and key_of(name) not in keys
    }
    planned = sorted((*resolution.planned, *new.values()), key=lambda entity: entity.key)
    return replace(resolution, planned=tuple(planned))


def resolved(
    entities: Sequence[ExtractedEntity], known: Sequence[KnownEntity], authors: Iterable[tuple[str, Role]] = ()
) -> Resolution:
    """The key of each extracted entity, the entities to create or to extend, and the doubts.

    Args:
        entities: in any order.
        known: in any order; all those of whom an extracted entity may be one.
        authors: whose turns they were read in.
    """
    speaking = {folded(name) for name, _ in authors}
    entities = claims.without_numbers(entities, speaking)
    held = [Bearer.known(entity) for entity in sorted(known, key=lambda entity: entity.key)]
    doubts: list[_Doubted] = []
    for window in sorted({entity.window for entity in entities}):
        groups = bearers.grouped(entity for entity in entities if entity.window == window)
        new = _settled(groups, held, speaking)
        held += [bearer for bearer, _ in new]
        doubts += [(bearer, others) for bearer, others in new if others]
    _give_keys(held)
    doubts += claims.doubt_names(held, known)
    refs = {member.ref: bearer for bearer in held for member in bearer.members}
    return Resolution(
        keys={ref: refs[ref].key for ref in sorted(refs)},
        planned=tuple(sorted((_planned(bearer) for bearer in held if bearer.members), key=lambda entity: entity.key)),
        doubts=tuple(
            sorted(
                (
                    Doubt(bearer.members[0].ref, tuple(sorted(other.key for other in others)), bearer.quotes)
                    for bearer, others in doubts
                ),
                key=lambda doubt: doubt.ref,
            )
        ),
    )


def decided(resolution: Resolution, same: Mapping[int, str | None], known: Sequence[KnownEntity]) -> Resolution:
    """The resolution with its doubts answered.

    Args:
        resolution: as :func:`resolved` gave it.
        same: the key of the entity that a reference means, None for somebody new. An answer to no doubt, or with a
            key that the doubt does not offer, is passed over; a doubt without an answer is kept.
        known: the same that the resolution was made from.
    """
    by_key = {entity.key: entity for entity in known}
    meant = {key: key for key in (*by_key, *resolution.keys.values())}
    for doubt in sorted(resolution.doubts, key=lambda doubt: (resolution.keys[doubt.ref] in by_key, doubt.ref)):
        answer = same.get(doubt.ref)
        if answer is not None and answer in doubt.keys:
            meant = _united(meant, resolution.keys[doubt.ref], answer, by_key)
    merged: dict[str, list[PlannedEntity]] = defaultdict(list)
    for planned in resolution.planned:
        merged[meant[planned.key]].append(planned)
    gone: dict[str, list[KnownEntity]] = defaultdict(list)
    for key, kept in meant.items():
        if key in by_key and key != kept:
            gone[kept].append(by_key[key])
    return Resolution(
        keys={ref: meant[key] for ref, key in resolution.keys.items()},
        planned=tuple(_merged(key, merged[key], by_key.get(key), gone[key]) for key in sorted(merged)),
        doubts=tuple(doubt for doubt in resolution.doubts if doubt.ref not in same),
    )


def _united(meant: Mapping[str, str], one: str, other: str, known: Collection[str]) -> dict[str, str]:
    """Who each is once these two are one."""
    ends = {meant[one], meant[other]}
    if one in known:  # somebody known was called by the name of somebody else known: they are one
        kept = meant[one]
    elif len(ends.intersection(known)) == 2:  # whoever is new makes nobody of two whom the graph tells apart
        return dict(meant)
    else:
        kept = min(ends, key=lambda key: (key not in known, key != meant[other], key))
    return {key: kept if end in ends else end for key, end in meant.items()}


def _merged(
    key: str, planned: Sequence[PlannedEntity], known: KnownEntity | None, gone: Sequence[KnownEntity]
) -> PlannedEntity:
    parts = sorted(planned, key=lambda part: part.key != key)
    base = PlannedEntity(key, known.name, known.type, (), False, known.about) if known else parts[0]
    everyone: list[PlannedEntity | KnownEntity] = [base, *parts, *gone]
    names = {name for part in everyone for name in (part.name, *part.aliases)} - {base.name}
    about = next((part.about for part in everyone if part.about), "")
    absorbs = tuple(sorted(entity.key for entity in gone))
    return replace(base, aliases=tuple(sorted(names)), about=about, absorbs=absorbs)


class _Verdict(NamedTuple):
    """Whose name it is; or, if that is open, whose it may be."""

    bearer: Bearer | None = None
    rank: tuple[bool, int] = (False, 0)
    perhaps: tuple[Bearer, ...] = ()


def _settled(pending: list[Bearer], held: Sequence[Bearer], authors: Collection[str]) -> list[_Doubted]:
    """Those of one window who are somebody new, each with those whom it may be; the others joined their bearers."""
    by_key = {key: bearer for bearer in held if bearer.is_known for key in (*bearer.merged, bearer.key)}
    found: list[_Doubted] = []
    claims.join_authors(pending, held, authors)
    numbered = claims.join_numbered(pending, held, by_key)
    taken = {member.ref for bearer in held for member in bearer.members}
    pending = [group for group in pending if group.members[0].ref not in taken]
    while True:
        near = Hooked(held)
        verdicts = [(one, _weighed(_verdict(one, near), numbered.get(one))) for one in pending]
        best = max((verdict.rank for _, verdict in verdicts if verdict.bearer), default=None)
        if best is None:
            break
        wanted: dict[int, list[tuple[Bearer, Bearer]]] = defaultdict(list)
        for group, verdict in verdicts:
            if verdict.bearer and verdict.rank == best:
                wanted[id(verdict.bearer)].append((group, verdict.bearer))
        pending = [group for group, verdict in verdicts if not verdict.bearer or verdict.rank != best]
        for wishes in wanted.values():
            given, losers = _given(wishes)
            if given:
                pending += losers
            else:
                found += [(group, (wishes[0][1],)) for group in losers]
    return found + [(group, verdict.perhaps) for group, verdict in verdicts]


def _given(wishes: Sequence[tuple[Bearer, Bearer]]) -> tuple[bool, list[Bearer]]:
    """Gives the bearer to the one who wants it, or whose context is its own; and those who go without."""
    fitting = [group for group, bearer in wishes if len(wishes) == 1 or group.context == bearer.context]
    if len(fitting) == 1:
        wishes[0][1].take(fitting[0].members)
    return len(fitting) == 1, [group for group, _ in wishes if [group] != fitting]


def _verdict(group: Bearer, near: Hooked) -> _Verdict:
    free = [bearer for bearer in near.to(group) if not bearer.windows & group.windows]
    related = [(bearer, found) for bearer in free if (found := bearers.relation(group, bearer)).likeness]
    related = [pair for pair in related if not pair[1].other_kind] or related
    if not related:
        return _Verdict()
    fitting = [(bearer, found) for bearer, found in related if found.sure and found.likeness >= Likeness.SHORT]
    agreed = _best([pair for pair in fitting if pair[1].agreed])
    if len(agreed) == 1 and (agreed[0][1].likeness >= Likeness.LOOSE or len(fitting) == 1):
        return _Verdict(agreed[0][0], (True, agreed[0][1].likeness))
    here = [pair for pair in fitting if pair[0].members and pair[1].likeness is Likeness.EXACT]
    if len(here) == 1:  # the same name in the same conversation
        return _Verdict(here[0][0], (False, Likeness.EXACT))
    best = _best(related)
    bearer, found = best[0]
    rivals = best if found.likeness >= Likeness.LOOSE else related
    is_short = found.likeness is Likeness.SHORT
    if len(rivals) > 1 or best[0] not in fitting or (is_short and claims.is_shared(bearer, near)):
        return _Verdict(perhaps=tuple(other for other, _ in related))
    return _Verdict(bearer, (False, found.likeness))


def _weighed(verdict: _Verdict, numbered: Bearer | None) -> _Verdict:
    """The verdict beside the one whose number the reply gave: where no name is the same, it may be meant."""
    if numbered is None or numbered is verdict.bearer or verdict.rank[1] >= Likeness.LOOSE:
        return verdict
    short = (verdict.bearer,) if verdict.bearer else ()
    return _Verdict(perhaps=tuple(dict.fromkeys((*short, *verdict.perhaps, numbered))))


def _best(pairs: Sequence[tuple[Bearer, Relation]]) -> list[tuple[Bearer, Relation]]:
    most = max((found.likeness for _, found in pairs), default=None)
    return [pair for pair in pairs if pair[1].likeness is most]


def _give_keys(held: Sequence[Bearer]) -> None:
    """Each new bearer gets the key of its name; namesakes but the first one of their name and context.

    One whose name was taken for another's, and who is listed beside that one now, is who it was before.
    """
    used = {bearer.key for bearer in held if bearer.is_known}
    for other in [bearer for bearer in held if bearer.merged]:
        for bearer in [new for new in held if not new.is_known and not new.key]:
            if key_of(bearer.name) in other.merged and bearer.windows & other.windows:
                bearer.key, bearer.parts_from = key_of(bearer.name), other.key
        used |= set(other.merged)
    new = [bearer for bearer in held if not bearer.is_known]
    for bearer in sorted(new, key=lambda new: (folded(new.about), new.kind, new.name, sorted(new.aliases))):
        if bearer.key:
            continue
        bearer.key = key_of(bearer.name)
        parts, n = ("entity", folded(bearer.name), folded(bearer.about), bearer.kind), 1
        while bearer.key in used:
            bearer.key, n = digest(*parts, *([str(n)] if n > 1 else [])), n + 1
        used.add(bearer.key)


def _planned(bearer: Bearer) -> PlannedEntity:
    names = {name for member in bearer.members for name in (member.name, *member.aliases)} - {bearer.name}
    is_new = not bearer.is_known and not bearer.parts_from
    aliases = tuple(sorted(names))
    return PlannedEntity(
        bearer.key, bearer.name, bearer.type, aliases, is_new, bearer.about, parts_from=bearer.parts_from
    )
