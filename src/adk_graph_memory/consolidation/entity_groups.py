"""Somebody with names, a type and a context, known or new; two of them go in, what speaks for one comes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Self

from adk_graph_memory.consolidation import name_matching, spelling
from adk_graph_memory.consolidation.name_matching import NameMatch, ParsedName
from adk_graph_memory.records import ExtractedEntity, KnownEntity, fold_text

_TYPE_WORDS_BY_KIND = {
    "": "thing name entity unknown",
    "person": "person people human user agent character",
    "animal": "animal pet",
    "organization": "organization organisation company business team band institution group",
    "place": "place location city town country region address venue",
}
_KIND_BY_TYPE_WORD = {word: kind for kind, words in _TYPE_WORDS_BY_KIND.items() for word in words.split()}
_CONFUSABLE_KINDS = [{"person", "animal"}, {"organization", "place"}, {"organization", "other"}, {"place", "other"}]
"""Kinds that extractors mix up: a pet, a museum, a product, a festival. Alike in name, they are in doubt."""


@lru_cache(maxsize=1_024)
def classify_type(type: str) -> str:
    """The kind of thing that a type says, empty if it says nothing."""
    return _KIND_BY_TYPE_WORD.get(fold_text(type), "other") if type.strip() else ""


def is_compatible_kind(kind: str, other: str) -> bool:
    """Whether something may be of both kinds."""
    return not kind or not other or kind == other or {kind, other} in _CONFUSABLE_KINDS


class EntityMatch(NamedTuple):
    """What speaks for two bearers being one."""

    name_match: NameMatch
    is_certain: bool = True
    """nothing but the name is against it: contexts and kinds agree, or one of them is silent"""
    has_same_context: bool = False
    """both have a context, and it is the same"""
    has_different_kind: bool = False
    """their kinds are mixed up easily, but not the same"""


@dataclass(slots=True, eq=False)
class EntityGroup:
    """Whoever bears some names; ``members`` are the extracted entities found to be this one."""

    name: str
    type: str
    about: str = ""
    aliases: list[str] = field(default_factory=list)
    key: str = ""
    is_known: bool = False
    merged_keys: tuple[str, ...] = ()
    """keys of the graph's entities that were found to be this one"""
    split_from: str = ""
    """the key of the one that it had been taken for"""
    members: list[ExtractedEntity] = field(default_factory=list)
    _blocking_keys: frozenset[str] | None = None

    @classmethod
    def from_known_entity(cls, entity: KnownEntity) -> Self:
        """The bearer that an entity of the graph is."""
        aliases = list(entity.aliases)
        return cls(
            entity.name, entity.type, entity.about, aliases, entity.key, is_known=True, merged_keys=entity.merged_keys
        )

    @classmethod
    def from_extracted(cls, members: list[ExtractedEntity]) -> Self:
        """The bearer that extracted entities of one name are."""
        first = members[0]
        made = cls(first.name, first.type, first.about)
        made.add_members(members)
        return made

    def add_members(self, members: Iterable[ExtractedEntity]) -> None:
        """Those extracted are this one."""
        for member in members:
            self.members.append(member)
            names = (member.name, *member.aliases)
            self.aliases += [name for name in dict.fromkeys(names) if name not in (self.name, *self.aliases)]
            self.about = self.about or member.about
            self.type = self.type if self.kind else member.type
        self._blocking_keys = None

    @property
    def kind(self) -> str:
        """What kind of thing it is."""
        return classify_type(self.type)

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
        return frozenset(map(spelling.strip_accents, spelling.normalize_words(fold_text(self.about or self.note))))

    @property
    def note(self) -> str:
        """What its name says of it in brackets."""
        return next(
            (note for name in (self.name, *self.aliases) if (note := name_matching.parse_name(name, self.kind).note)),
            "",
        )

    @property
    def blocking_keys(self) -> frozenset[str]:
        """Two bearers without a common one have nothing to do with each other."""
        if self._blocking_keys is None:
            self._blocking_keys = frozenset().union(
                *(name_matching.make_blocking_keys(name, self.kind) for name in (self.name, *self.aliases))
            )
        return self._blocking_keys

    def parse_names(self, kind: str) -> tuple[ParsedName, list[ParsedName]]:
        """Its name and its aliases, as those of such a kind."""
        return name_matching.parse_name(self.name, kind), [
            name_matching.parse_name(alias, kind) for alias in self.aliases
        ]


class BlockingIndex:
    """Bearers by their hooks: whom one may have to do with is found without comparing it with everybody.

    Args:
        bearers: as they are now; what they take later does not count.
    """

    def __init__(self, bearers: Sequence[EntityGroup]) -> None:
        self._groups = bearers
        self._positions_by_key: dict[str, list[int]] = {}
        for place, bearer in enumerate(bearers):
            for hook in bearer.blocking_keys:
                self._positions_by_key.setdefault(hook, []).append(place)

    def find_possible_matches(self, one: EntityGroup) -> list[EntityGroup]:
        """Those that share a hook with this one, in their order."""
        places = {place for hook in one.blocking_keys for place in self._positions_by_key.get(hook, ())}
        return [self._groups[place] for place in sorted(places)]


def group_entities(entities: Iterable[ExtractedEntity]) -> list[EntityGroup]:
    """The entities of one window, as bearers: the same name in the same context is one, listed twice by mistake."""
    groups: dict[tuple[str, ...], list[ExtractedEntity]] = {}
    kinds: dict[tuple[str, ...], dict[str, None]] = {}
    for entity in sorted(entities, key=_make_entity_sort_key):
        sort, kind = (
            (fold_text(entity.name), fold_text(entity.about), entity.known_key or ""),
            classify_type(entity.type),
        )
        listed = kinds.setdefault(sort, {})
        if not kind and len(listed) == 1:
            [kind] = listed
        listed[kind] = None
        groups.setdefault((*sort, kind), []).append(entity)
    return [EntityGroup.from_extracted(members) for members in groups.values()]


def _make_entity_sort_key(entity: ExtractedEntity) -> tuple[object, ...]:
    """Any order that the order of arrival has no part in; those of no kind come last."""
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


def match_groups(one: EntityGroup, other: EntityGroup) -> EntityMatch:
    """What speaks for the two being one."""
    if one.blocking_keys.isdisjoint(other.blocking_keys) or not is_compatible_kind(one.kind, other.kind):
        return EntityMatch(NameMatch.NONE)
    kinds = {one.kind, other.kind} - {""}
    kind = min(kinds) if len(kinds) == 1 else ""
    sure_of_kind = bool(one.kind and other.kind)
    found = _match_all_names(one.parse_names(kind), other.parse_names(kind), kind, sure_of_kind)
    if not found:
        return EntityMatch(NameMatch.NONE)
    both_told = bool(one.context and other.context)
    told_in_brackets = bool(one.note) != bool(other.note) and not both_told
    agreed = both_told and one.context == other.context
    sure = len(kinds) < 2 and agreed >= both_told and not told_in_brackets
    return EntityMatch(found, sure, agreed, has_different_kind=len(kinds) > 1)


def _match_all_names(
    one: tuple[ParsedName, list[ParsedName]], other: tuple[ParsedName, list[ParsedName]], kind: str, sure_of_kind: bool
) -> NameMatch:
    """The best of what the names say. That both are called Toni says little: it may be short for either name."""
    (name, aliases), (other_name, other_aliases) = one, other
    everyone = [name, *aliases], [other_name, *other_aliases]
    if len({found.sex for side in everyone for found in side} - {""}) > 1:
        return NameMatch.NONE
    best = name_matching.match_names(name, other_name, kind, sure_of_kind=sure_of_kind)
    for full, alias in [*((name, alias) for alias in other_aliases), *((other_name, alias) for alias in aliases)]:
        like = min(name_matching.match_names(full, alias, kind, sure_of_kind=sure_of_kind), NameMatch.SHORT)
        if like and full.base != alias.base and len(alias.joined_words) < len(full.joined_words):
            like = NameMatch.MAYBE  # that Franziska Maier is called Franzi makes her no Franzi Huber
        best = max(best, like)
    shared = {alias.base for alias in aliases} & {alias.base for alias in other_aliases}
    best = max(best, NameMatch(bool(shared)))
    if best < NameMatch.EXACT and kind in ("person", "organization"):
        against = any(name_matching.has_name_conflict(mine, theirs) for mine in everyone[0] for theirs in everyone[1])
        best = min(best, NameMatch.MAYBE) if against else best
    return best
