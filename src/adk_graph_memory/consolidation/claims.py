"""Decide whether to believe a reply that takes somebody for an author or for a known entity by its number.

A number is easily one off, a name is not: the number counts where the names agree with it, and is no more than a doubt
where they say nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from adk_graph_memory.consolidation import bearers
from adk_graph_memory.consolidation.bearers import Bearer, Hooked
from adk_graph_memory.consolidation.names import Likeness
from adk_graph_memory.records import ExtractedEntity, KnownEntity, Resolution, folded

_AUTHOR_KINDS = ("", "person", "other")
"""What a reply may call an author: a person, an agent, or some thing; a place or a pet of that name is another."""


def is_author(one: ExtractedEntity | Bearer, authors: Collection[str]) -> bool:
    """Whether it is named exactly like one of these authors (folded names), and nothing tells it from them."""
    return folded(one.name) in authors and not one.about and bearers.kind_of(one.type) in _AUTHOR_KINDS


def without_numbers(entities: Iterable[ExtractedEntity], authors: Collection[str]) -> list[ExtractedEntity]:
    """The entities; whoever is named like an author is that author, whatever number the reply gives."""
    return [replace(one, known_key=None) if is_author(one, authors) else one for one in entities]


def join_authors(groups: Iterable[Bearer], held: Sequence[Bearer], authors: Collection[str]) -> None:
    """Give those named like an author to the bearer of that very name, if there is one."""
    known = {folded(bearer.name): bearer for bearer in reversed(held) if is_author(bearer, authors)}
    for group in groups:
        if is_author(group, authors) and (bearer := known.get(folded(group.name))):
            bearer.take(group.members)


def join_numbered(
    groups: Sequence[Bearer], held: Sequence[Bearer], by_key: Mapping[str, Bearer]
) -> dict[Bearer, Bearer]:
    """Give those whose name fits their number to the bearer it stands for; the others whom it may stand for.

    Only words that hold the new name make it a doubt: without them the number is passed over.
    """
    numbered = {group: by_key[key] for group in groups if (key := group.members[0].known_key) in by_key and key}
    near = Hooked(held if numbered else ())
    fitting = {group: bearer for group, bearer in numbered.items() if _fits(group, bearer, near)}
    for group, bearer in fitting.items():
        bearer.take(group.members)
    return {
        group: bearer
        for group, bearer in numbered.items()
        if group not in fitting and bearers.agree(group.kind, bearer.kind) and group.quotes
    }


def _fits(group: Bearer, bearer: Bearer, near: Hooked) -> bool:
    """Whether its name or an alias is the group's, and nobody else's more so."""
    mine = _fit(group, bearer)
    return mine[0] >= Likeness.SHORT and all(_fit(group, other) <= mine for other in near.to(group))


def _fit(group: Bearer, bearer: Bearer) -> tuple[Likeness, bool, bool]:
    found = bearers.relation(group, bearer)
    return found.likeness, not found.other_kind, found.agreed


def count_refused(entities: Iterable[ExtractedEntity], resolution: Resolution, known: Iterable[KnownEntity]) -> int:
    """How many were given the number of a known entity and are somebody else."""
    meant = {key: resolution.absorbed.get(one.key, one.key) for one in known for key in (*one.merged, one.key)}
    numbered = [(one, meant[one.known_key]) for one in entities if one.known_key in meant and one.known_key]
    return sum(resolution.keys[one.ref] != key for one, key in numbered)


def doubt_names(held: Sequence[Bearer], known: Sequence[KnownEntity]) -> list[tuple[Bearer, tuple[Bearer, ...]]]:
    """Those known who were given, as a name they had not borne before, the very name of somebody else known."""
    borne = {entity.key: {entity.name, *entity.aliases} for entity in known}
    places: dict[str, list[int]] = {}
    for place, bearer in enumerate(held):
        if bearer.is_known:
            places.setdefault(folded(bearer.name), []).append(place)
    found: list[tuple[Bearer, tuple[Bearer, ...]]] = []
    for bearer in (one for one in held if one.is_known and one.members):
        names = {folded(name) for name in bearer.aliases} - set(map(folded, borne[bearer.key]))
        others = [held[place] for place in sorted(place for name in names for place in places.get(name, ()))]
        perhaps = [one for one in others if bearers.agree(bearer.kind, one.kind) and not one.windows & bearer.windows]
        found += [(bearer, tuple(perhaps))] * bool(perhaps)
    return found


def is_shared(bearer: Bearer, near: Hooked) -> bool:
    """Whether a short name may be another's as well: an Inés, when there is also an Inés Costa, need not be Moreau."""
    others = (other for other in near.to(bearer) if other is not bearer)
    return any(bearers.relation(bearer, other).likeness >= Likeness.SHORT for other in others)
