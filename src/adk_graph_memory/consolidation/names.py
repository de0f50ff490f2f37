"""Two names go in; how much speaks for their being one name comes out, whatever the script they are written in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache

from adk_graph_memory.consolidation import forms, letters
from adk_graph_memory.records import folded


class Likeness(IntEnum):
    """From nothing in common to the same name; below ``SHORT`` no rule may decide."""

    NONE = 0
    MAYBE = 1
    SHORT = 2
    """one is short for the other, or a name that the other is also called by"""
    LOOSE = 3
    """the same but for accents, titles, legal forms, punctuation"""
    EXACT = 4


@dataclass(frozen=True, slots=True)
class Name:
    """A name taken apart: "Dr. Anna Weber (vet)" is the words anna and weber with a title and a note."""

    base: str
    note: str
    words: tuple[str, ...]
    sex: forms.Sex = ""
    title: str = ""
    """how it is addressed: ``family`` where a title goes with a family name, ``any`` where with either"""
    legal: str = ""
    described: bool = False
    """whether some of it is no name but says who it is: Jonas' wife"""

    @property
    def squashed(self) -> str:
        """The words without what is between them and without accents."""
        return "".join(map(letters.plain, self.words))


# --- what stands beside a name ------------------------------------------------------------------------------


def _table(words: str) -> frozenset[str]:
    """The words as they are compared, without spaces: ``S.p.A.`` and ``SpA`` are one."""
    return frozenset("".join(map(letters.plain, letters.spelled(folded(word)))) for word in words.split())


def _by_sex(words: Mapping[forms.Sex, str]) -> dict[str, forms.Sex]:
    return {word: sex for sex, listed in words.items() for word in _table(listed)}


_TITLES, _SUFFIXES, _PREFIXES = map(_by_sex, (forms.TITLES, forms.SUFFIXES, forms.PREFIXES))
_ROMANISED = tuple(f"-{word}" for word in forms.ROMANISED.split())
_GENERATIONS, _PARTICLES = _table(forms.GENERATIONS), _table(forms.PARTICLES)
_ENDINGS, _BEGINNINGS = _table(forms.LEGAL_ENDINGS), _table(forms.LEGAL_BEGINNINGS)
_ARTICLES = _table(forms.ARTICLES)
_SHORT_FOR = {short: long for pair in forms.SHORT_FOR.split() for short, long in [pair.split("=")]}


def _cut(words: tuple[str, ...], table: Iterable[str], *, end: bool, most: int = 4) -> tuple[tuple[str, ...], str]:
    """The words without one of the table at this end, and which it was; written on only in scripts without spaces."""
    for n in range(min(most, len(words) - 1), 0, -1):
        found = "".join(map(letters.plain, words[-n:] if end else words[:n]))
        if found in table:
            return (words[:-n] if end else words[n:]), found
    word = words[-1 if end else 0] if words else ""
    for found in sorted(table, key=len, reverse=True):
        rest = word.removesuffix(found) if end else word.removeprefix(found)
        if rest in ("", word) or not letters.is_wide(found) or "\u0e30" <= rest[0] <= "\u0e3a":
            continue
        if end or len(found) > 1:
            return ((*words[:-1], rest) if end else (rest, *words[1:])), found
    return words, ""


@lru_cache(maxsize=16_384)
def parsed(name: str, kind: str) -> Name:
    """The name taken apart as a name of this kind of thing: only people have titles, only companies legal forms."""
    text = folded(name)
    base, bracket, note = text.removesuffix(")").rpartition("(") if text.endswith(")") else (text, "", "")
    if not base.strip():
        base, note = text, ""
    base, note = base.strip(), note.strip() if bracket else ""
    if kind == "person":
        small = {word for part in name.split() if part.islower() for word in letters.spelled(folded(part))}
        person = _person(base, note)
        return replace(person, described=not small.isdisjoint({*person.words} - _PARTICLES))
    words, legal = letters.spelled(base), ""
    if kind in ("organization", "place"):
        words, _ = _cut(words, _ARTICLES, end=False)
    if kind == "organization":
        words, legal = _cut(words, _ENDINGS, end=True)
        words, before = _cut(words, _BEGINNINGS, end=False)
        legal = _SHORT_FOR.get(legal or before, legal or before)
    return Name(base, note, words, legal=legal)


def _person(base: str, note: str) -> Name:
    sex: forms.Sex = ""
    title = ""
    text = base
    for ending in _ROMANISED:
        if text.endswith(ending) and text != ending:
            text, title = text.removesuffix(ending), "any"
    family, comma, given = text.partition(",")
    if comma and given.strip() and not _table(given.replace(" ", "")) & _GENERATIONS:
        text = f"{given} {family}"
    words = letters.spelled(text)
    for table, end, how in ((_TITLES, False, "family"), (_PREFIXES, False, "any"), (_SUFFIXES, True, "any")):
        while (shorter := _cut(words, table, end=end, most=2))[1]:
            words, sex, title = shorter[0], sex or table[shorter[1]], title or how
    return Name(base, note, words, sex, title)


@lru_cache(maxsize=16_384)
def hooks(name: str, kind: str) -> frozenset[str]:
    """What two names share if they can be alike at all: a word, a pair of characters, initials; cheap to compare."""
    apart = [parsed(name, ""), parsed(name, kind)]
    found = {apart[0].base, *(part.squashed for part in apart)}
    for words in (part.words for part in apart):
        if len(words) > 2:
            found.add("".join(letters.plain(word)[0] for word in words))
        for word in words:
            bare = letters.plain(word)
            found |= {bare, letters.digraphs(word)}
            if letters.is_wide(bare):
                found |= {bare[0], *(bare[i : i + 2] for i in range(len(bare) - 1))}
    return frozenset(found - {""})


# --- comparing ----------------------------------------------------------------------------------------------


def likeness(one: Name, other: Name, kind: str, *, sure_of_kind: bool = True) -> Likeness:
    """How alike two names of one kind are; where the kind is a guess, a short form is no more than perhaps."""
    if one.base == other.base:
        return Likeness.EXACT
    if (one.sex and other.sex and one.sex != other.sex) or not one.words or not other.words:
        return Likeness.NONE
    if whole := _whole(one, other):
        return whole
    part = Likeness.NONE
    if kind == "person":
        part = _shortened(*sorted((one, other), key=lambda name: (len(name.words), len(name.squashed))))
    elif kind in ("organization", "place"):
        part = _part(*sorted((one, other), key=lambda name: len(name.words)))
    return part if sure_of_kind else min(part, Likeness.MAYBE)


def conflict(one: Name, other: Name) -> bool:
    """Whether two full names share a word and differ in others: Inés Moreau and Inés Costa, Acme GmbH and Acme Inc."""
    if one.legal and other.legal and one.legal != other.legal:
        return True
    if min(len(one.words), len(other.words)) < 2 or likeness(one, other, "person"):
        return False
    return not {*map(letters.plain, one.words)}.isdisjoint(map(letters.plain, other.words))


def _whole(one: Name, other: Name) -> Likeness:
    if len(one.words) == len(other.words):
        alike = [letters.alike(a, b) for a, b in zip(one.words, other.words, strict=True)]
        if False not in alike:
            other_form = one.legal and other.legal and one.legal != other.legal  # Acme GmbH and Acme Inc.
            return Likeness.MAYBE if None in alike or other_form else Likeness.LOOSE
    if one.squashed == other.squashed:
        return Likeness.LOOSE if letters.is_wide(one.squashed) else Likeness.MAYBE
    if sorted(map(letters.plain, one.words)) == sorted(map(letters.plain, other.words)):
        return Likeness.MAYBE  # Thomas Martin and Martin Thomas
    return Likeness.NONE


def _part(short: Name, full: Name) -> Likeness:
    """Companies and places: Acme and Acme Labs, Porto and Porto Alegre, WHO; a model must know."""
    few, many = tuple(map(letters.plain, short.words)), tuple(map(letters.plain, full.words))
    n = len(few)
    initials = "".join(word[0] for word in many)
    return Likeness(n < len(many) and (few in (many[:n], many[-n:]) or (len(initials) > 2 and few == (initials,))))


def _shortened(short: Name, full: Name) -> Likeness:
    """People: whether the short name leaves words of the full one out, or only their initials in."""
    places = _places(short.words, full.words)
    if not places:
        return _shortened_wide(short, full) if len(short.words) == 1 else Likeness.NONE
    first, last = places[0] == 0, places[-1] == len(full.words) - 1
    family = last and not first
    if full.described or f"{letters.plain(short.words[-1])}-" in letters.plain(full.base):
        return Likeness.MAYBE  # Jonas' wife is not Jonas, Jean is not Jean-Luc
    if _GENERATIONS & ({*map(letters.plain, short.words)} ^ {*map(letters.plain, full.words)}):
        return Likeness.MAYBE
    if short.title == "family" and (family or first != last):
        # Dr. Weber is Anna Weber, but Mr Weber may be her husband, and Mr Martin is no Martin Weber.
        return Likeness.SHORT if family and short.sex in ("", full.sex) else Likeness.MAYBE
    return Likeness.SHORT if first or (last and short.title == "any") else Likeness.MAYBE


def _places(short: tuple[str, ...], full: tuple[str, ...]) -> list[int]:
    """Where the words of the short name stand in the full one, in order; none if one does not, or initials alone do."""
    places: list[int] = []
    spelled_out = False
    for word in short:
        for place in range(places[-1] + 1 if places else 0, len(full)):
            is_word = letters.alike(word, full[place])
            is_initial = 1 in (len(word), len(full[place])) and letters.plain(word)[0] == letters.plain(full[place])[0]
            if is_word or (is_initial and word.upper() != word):
                places.append(place)
                spelled_out = spelled_out or bool(is_word)
                break
        else:
            return []
    return places if spelled_out else []


def _shortened_wide(short: Name, full: Name) -> Likeness:
    """Names without a border: 山田 in 山田太郎, 민수 in 김민수. 太郎 ends 健太郎, somebody else; マリ begins マリア."""
    few, many = short.squashed, full.squashed
    rest = len(many) - len(few)
    if rest < 1:
        return Likeness.NONE
    if letters.is_han(few) and many.startswith(few):
        return Likeness.SHORT if len(few) > 1 and (rest > 1 or not letters.is_han(many[-rest:])) else Likeness.MAYBE
    if letters.is_hangul(many) and many.endswith(few) and len(few) > 1 and rest == 1:
        return Likeness.SHORT
    if (letters.is_han(few) and many.endswith(few) and len(few) > 1) or (letters.is_hangul(many) and many[0] == few):
        return Likeness.MAYBE
    return Likeness.NONE
