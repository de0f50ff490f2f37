"""Somebody with names, a type and a context, known or new; two of them go in, what speaks for one comes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Self

from adk_graph_memory.consolidation import letters, names
from adk_graph_memory.consolidation.names import Likeness, Name
from adk_graph_memory.records import ExtractedEntity, KnownEntity, folded

_KINDS = {
    "": "thing name entity unknown",
    "person": "person people human user agent character",
    "animal": "animal pet",
    "organization": "organization organisation company business team band institution group",
    "place": "place location city town country region address venue",
}
_KIND = {word: kind for kind, words in _KINDS.items() for word in words.split()}
_CLOSE = [{"person", "animal"}, {"organization", "place"}, {"organization", "other"}, {"place", "other"}]
"""Kinds that extractors mix up: a pet, a museum, a product, a festival. Alike in name, they are in doubt."""


@lru_cache(maxsize=1_024)
def kind_of(type: str) -> str:
    """The kind of thing that a type says, empty if it says nothing."""
    return _KIND.get(folded(type), "other") if type.strip() else ""


def agree(kind: str, other: str) -> bool:
    """Whether something may be of both kinds."""
    return not kind or not other or kind == other or {kind, other} in _CLOSE


class Relation(NamedTuple):
    """What speaks for two bearers being one."""

    likeness: Likeness
    sure: bool = True
    """nothing but the name is against it: contexts and kinds agree, or one of them is silent"""
    agreed: bool = False
    """both have a context, and it is the same"""
    other_kind: bool = False
    """their kinds are mixed up easily, but not the same"""


@dataclass(slots=True, eq=False)
class Bearer:
    """Whoever bears some names; ``members`` are the extracted entities found to be this one."""

    name: str
    type: str
    about: str = ""
    aliases: list[str] = field(default_factory=list)
    key: str = ""
    is_known: bool = False
    merged: tuple[str, ...] = ()
    """keys of the graph's entities that were found to be this one"""
    parts_from: str = ""
    """the key of the one that it had been taken for"""
    members: list[ExtractedEntity] = field(default_factory=list)
    _hooks: frozenset[str] | None = None

    @classmethod
    def known(cls, entity: KnownEntity) -> Self:
        """The bearer that an entity of the graph is."""
        aliases = list(entity.aliases)
        return cls(entity.name, entity.type, entity.about, aliases, entity.key, is_known=True, merged=entity.merged)

    @classmethod
    def new(cls, members: list[ExtractedEntity]) -> Self:
        """The bearer that extracted entities of one name are."""
        first = members[0]
        made = cls(first.name, first.type, first.about)
        made.take(members)
        return made

    def take(self, members: Iterable[ExtractedEntity]) -> None:
        """Those extracted are this one."""
        for member in members:
            self.members.append(member)
            names = (member.name, *member.aliases)
            self.aliases += [name for name in dict.fromkeys(names) if name not in (self.name, *self.aliases)]
            self.about = self.about or member.about
            self.type = self.type if self.kind else member.type
        self._hooks = None

    @property
    def kind(self) -> str:
        """What kind of thing it is."""
        return kind_of(self.type)

    @property
    def quotes(self) -> tuple[str, ...]:
        """The words that name it, where it was extracted."""
        return tuple(dict.fromkeys(quote for member in self.members for quote in member.quotes))

    @property
    def windows(self) -> set[int]:
        """Where it was met."""
        return {member.window for member in self.members}

    @property
    def context(self) -> frozenset[str]:
        """The words that tell it from its namesakes."""
        return frozenset(map(letters.plain, letters.spelled(folded(self.about or self.note))))

    @property
    def note(self) -> str:
        """What its name says of it in brackets."""
        return next((note for name in (self.name, *self.aliases) if (note := names.parsed(name, self.kind).note)), "")

    @property
    def hooks(self) -> frozenset[str]:
        """Two bearers without a common one have nothing to do with each other."""
        if self._hooks is None:
            self._hooks = frozenset().union(*(names.hooks(name, self.kind) for name in (self.name, *self.aliases)))
        return self._hooks

    def named(self, kind: str) -> tuple[Name, list[Name]]:
        """Its name and its aliases, as those of such a kind."""
        return names.parsed(self.name, kind), [names.parsed(alias, kind) for alias in self.aliases]


class Hooked:
    """Bearers by their hooks: whom one may have to do with is found without comparing it with everybody.

    Args:
        bearers: as they are now; what they take later does not count.
    """

    def __init__(self, bearers: Sequence[Bearer]) -> None:
        self._bearers = bearers
        self._places: dict[str, list[int]] = {}
        for place, bearer in enumerate(bearers):
            for hook in bearer.hooks:
                self._places.setdefault(hook, []).append(place)

    def to(self, one: Bearer) -> list[Bearer]:
        """Those that share a hook with this one, in their order."""
        places = {place for hook in one.hooks for place in self._places.get(hook, ())}
        return [self._bearers[place] for place in sorted(places)]


def grouped(entities: Iterable[ExtractedEntity]) -> list[Bearer]:
    """The entities of one window, as bearers: the same name in the same context is one, listed twice by mistake."""
    groups: dict[tuple[str, ...], list[ExtractedEntity]] = {}
    kinds: dict[tuple[str, ...], dict[str, None]] = {}
    for entity in sorted(entities, key=_order):
        sort, kind = (folded(entity.name), folded(entity.about), entity.known_key or ""), kind_of(entity.type)
        listed = kinds.setdefault(sort, {})
        if not kind and len(listed) == 1:
            [kind] = listed
        listed[kind] = None
        groups.setdefault((*sort, kind), []).append(entity)
    return [Bearer.new(members) for members in groups.values()]


def _order(entity: ExtractedEntity) -> tuple[object, ...]:
    """Any order that the order of arrival has no part in; those of no kind come last."""
    return (
        not kind_of(entity.type),
        folded(entity.name),
        folded(entity.about),
        entity.known_key or "",
        entity.type,
        entity.name,
        entity.about,
        entity.aliases,
        entity.ref,
    )


def relation(one: Bearer, other: Bearer) -> Relation:
    """What speaks for the two being one."""
    if one.hooks.isdisjoint(other.hooks) or not agree(one.kind, other.kind):
        return Relation(Likeness.NONE)
    kinds = {one.kind, other.kind} - {""}
    kind = min(kinds) if len(kinds) == 1 else ""
    sure_of_kind = bool(one.kind and other.kind)
    found = _best(one.named(kind), other.named(kind), kind, sure_of_kind)
    if not found:
        return Relation(Likeness.NONE)
    both_told = bool(one.context and other.context)
    told_in_brackets = bool(one.note) != bool(other.note) and not both_told
    agreed = both_told and one.context == other.context
    sure = len(kinds) < 2 and agreed >= both_told and not told_in_brackets
    return Relation(found, sure, agreed, other_kind=len(kinds) > 1)


def _best(one: tuple[Name, list[Name]], other: tuple[Name, list[Name]], kind: str, sure_of_kind: bool) -> Likeness:
    """The best of what the names say. That both are called Toni says little: it may be short for either name."""
    (name, aliases), (other_name, other_aliases) = one, other
    everyone = [name, *aliases], [other_name, *other_aliases]
    if len({found.sex for side in everyone for found in side} - {""}) > 1:
        return Likeness.NONE
    best = names.likeness(name, other_name, kind, sure_of_kind=sure_of_kind)
    for full, alias in [*((name, alias) for alias in other_aliases), *((other_name, alias) for alias in aliases)]:
        like = min(names.likeness(full, alias, kind, sure_of_kind=sure_of_kind), Likeness.SHORT)
        if like and full.base != alias.base and len(alias.squashed) < len(full.squashed):
            like = Likeness.MAYBE  # that Franziska Maier is called Franzi makes her no Franzi Huber
        best = max(best, like)
    shared = {alias.base for alias in aliases} & {alias.base for alias in other_aliases}
    best = max(best, Likeness(bool(shared)))
    if best < Likeness.EXACT and kind in ("person", "organization"):
        against = any(names.conflict(mine, theirs) for mine in everyone[0] for theirs in everyone[1])
        best = min(best, Likeness.MAYBE) if against else best
    return best
