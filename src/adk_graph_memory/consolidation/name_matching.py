"""Two names go in; how much speaks for their being one name comes out, whatever the script they are written in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache

from adk_graph_memory.consolidation import name_affixes, spelling
from adk_graph_memory.records import fold_text


class NameMatch(IntEnum):
    """From nothing in common to the same name; below ``SHORT`` no rule may decide."""

    NONE = 0
    MAYBE = 1
    SHORT = 2
    """one is short for the other, or a name that the other is also called by"""
    LOOSE = 3
    """the same but for accents, titles, legal forms, punctuation"""
    EXACT = 4


@dataclass(frozen=True, slots=True)
class ParsedName:
    """A name taken apart: "Dr. Anna Weber (vet)" is the words anna and weber with a title and a note."""

    base: str
    note: str
    words: tuple[str, ...]
    sex: name_affixes.Sex = ""
    title_usage: str = ""
    """how it is addressed: ``family`` where a title goes with a family name, ``any`` where with either"""
    legal_form: str = ""
    is_descriptive: bool = False
    """whether some of it is no name but says who it is: Jonas' wife"""

    @property
    def joined_words(self) -> str:
        """The words without what is between them and without accents."""
        return "".join(map(spelling.strip_accents, self.words))


# --- what stands beside a name ------------------------------------------------------------------------------


def _make_word_set(words: str) -> frozenset[str]:
    """The words as they are compared, without spaces: ``S.p.A.`` and ``SpA`` are one."""
    return frozenset(
        "".join(map(spelling.strip_accents, spelling.normalize_words(fold_text(word)))) for word in words.split()
    )


def _map_words_to_sex(words: Mapping[name_affixes.Sex, str]) -> dict[str, name_affixes.Sex]:
    return {word: sex for sex, listed in words.items() for word in _make_word_set(listed)}


_TITLES, _HONORIFIC_SUFFIXES, _HONORIFIC_PREFIXES = map(
    _map_words_to_sex, (name_affixes.TITLES, name_affixes.HONORIFIC_SUFFIXES, name_affixes.HONORIFIC_PREFIXES)
)
_ROMANISED_HONORIFICS = tuple(f"-{word}" for word in name_affixes.ROMANISED_HONORIFICS.split())
_GENERATIONS, _PARTICLES = _make_word_set(name_affixes.GENERATIONS), _make_word_set(name_affixes.PARTICLES)
_LEGAL_SUFFIXES, _LEGAL_PREFIXES = (
    _make_word_set(name_affixes.LEGAL_SUFFIXES),
    _make_word_set(name_affixes.LEGAL_PREFIXES),
)
_ARTICLES = _make_word_set(name_affixes.ARTICLES)
_LEGAL_ABBREVIATIONS = {
    short: long for pair in name_affixes.LEGAL_ABBREVIATIONS.split() for short, long in [pair.split("=")]
}


def _strip_affix(
    words: tuple[str, ...], table: Iterable[str], *, end: bool, most: int = 4
) -> tuple[tuple[str, ...], str]:
    """The words without one of the table at this end, and which it was; written on only in scripts without spaces."""
    for n in range(min(most, len(words) - 1), 0, -1):
        found = "".join(map(spelling.strip_accents, words[-n:] if end else words[:n]))
        if found in table:
            return (words[:-n] if end else words[n:]), found
    word = words[-1 if end else 0] if words else ""
    for found in sorted(table, key=len, reverse=True):
        rest = word.removesuffix(found) if end else word.removeprefix(found)
        if rest in ("", word) or not spelling.is_unspaced(found) or "\u0e30" <= rest[0] <= "\u0e3a":
            continue
        if end or len(found) > 1:
            return ((*words[:-1], rest) if end else (rest, *words[1:])), found
    return words, ""


@lru_cache(maxsize=16_384)
def parse_name(name: str, kind: str) -> ParsedName:
    """The name taken apart as a name of this kind of thing: only people have titles, only companies legal forms."""
    text = fold_text(name)
    base, bracket, note = text.removesuffix(")").rpartition("(") if text.endswith(")") else (text, "", "")
    if not base.strip():
        base, note = text, ""
    base, note = base.strip(), note.strip() if bracket else ""
    if kind == "person":
        small = {word for part in name.split() if part.islower() for word in spelling.normalize_words(fold_text(part))}
        person = _parse_person(base, note)
        return replace(person, is_descriptive=not small.isdisjoint({*person.words} - _PARTICLES))
    words, legal = spelling.normalize_words(base), ""
    if kind in ("organization", "place"):
        words, _ = _strip_affix(words, _ARTICLES, end=False)
    if kind == "organization":
        words, legal = _strip_affix(words, _LEGAL_SUFFIXES, end=True)
        words, before = _strip_affix(words, _LEGAL_PREFIXES, end=False)
        legal = _LEGAL_ABBREVIATIONS.get(legal or before, legal or before)
    return ParsedName(base, note, words, legal_form=legal)


def _parse_person(base: str, note: str) -> ParsedName:
    sex: name_affixes.Sex = ""
    title = ""
    text = base
    for ending in _ROMANISED_HONORIFICS:
        if text.endswith(ending) and text != ending:
            text, title = text.removesuffix(ending), "any"
    family, comma, given = text.partition(",")
    if comma and given.strip() and not _make_word_set(given.replace(" ", "")) & _GENERATIONS:
        text = f"{given} {family}"
    words = spelling.normalize_words(text)
    for table, end, how in (
        (_TITLES, False, "family"),
        (_HONORIFIC_PREFIXES, False, "any"),
        (_HONORIFIC_SUFFIXES, True, "any"),
    ):
        while (shorter := _strip_affix(words, table, end=end, most=2))[1]:
            words, sex, title = shorter[0], sex or table[shorter[1]], title or how
    return ParsedName(base, note, words, sex, title)


@lru_cache(maxsize=16_384)
def make_blocking_keys(name: str, kind: str) -> frozenset[str]:
    """What two names share if they can be alike at all: a word, a pair of characters, initials; cheap to compare."""
    apart = [parse_name(name, ""), parse_name(name, kind)]
    found = {apart[0].base, *(part.joined_words for part in apart)}
    for words in (part.words for part in apart):
        if len(words) > 2:
            found.add("".join(spelling.strip_accents(word)[0] for word in words))
        for word in words:
            bare = spelling.strip_accents(word)
            found |= {bare, spelling.expand_umlauts(word)}
            if spelling.is_unspaced(bare):
                found |= {bare[0], *(bare[i : i + 2] for i in range(len(bare) - 1))}
    return frozenset(found - {""})


# --- comparing ----------------------------------------------------------------------------------------------


def match_names(one: ParsedName, other: ParsedName, kind: str, *, sure_of_kind: bool = True) -> NameMatch:
    """How alike two names of one kind are; where the kind is a guess, a short form is no more than perhaps."""
    if one.base == other.base:
        return NameMatch.EXACT
    if (one.sex and other.sex and one.sex != other.sex) or not one.words or not other.words:
        return NameMatch.NONE
    if whole := _match_whole_name(one, other):
        return whole
    part = NameMatch.NONE
    if kind == "person":
        part = _match_short_name(*sorted((one, other), key=lambda name: (len(name.words), len(name.joined_words))))
    elif kind in ("organization", "place"):
        part = _match_partial_name(*sorted((one, other), key=lambda name: len(name.words)))
    return part if sure_of_kind else min(part, NameMatch.MAYBE)


def has_name_conflict(one: ParsedName, other: ParsedName) -> bool:
    """Whether two full names share a word and differ in others: Inés Moreau and Inés Costa, Acme GmbH and Acme Inc."""
    if one.legal_form and other.legal_form and one.legal_form != other.legal_form:
        return True
    if min(len(one.words), len(other.words)) < 2 or match_names(one, other, "person"):
        return False
    return not {*map(spelling.strip_accents, one.words)}.isdisjoint(map(spelling.strip_accents, other.words))


def _match_whole_name(one: ParsedName, other: ParsedName) -> NameMatch:
    if len(one.words) == len(other.words):
        alike = [spelling.is_same_word(a, b) for a, b in zip(one.words, other.words, strict=True)]
        if False not in alike:
            other_form = (
                one.legal_form and other.legal_form and one.legal_form != other.legal_form
            )  # Acme GmbH and Acme Inc.
            return NameMatch.MAYBE if None in alike or other_form else NameMatch.LOOSE
    if one.joined_words == other.joined_words:
        return NameMatch.LOOSE if spelling.is_unspaced(one.joined_words) else NameMatch.MAYBE
    if sorted(map(spelling.strip_accents, one.words)) == sorted(map(spelling.strip_accents, other.words)):
        return NameMatch.MAYBE  # Thomas Martin and Martin Thomas
    return NameMatch.NONE


def _match_partial_name(short: ParsedName, full: ParsedName) -> NameMatch:
    """Companies and places: Acme and Acme Labs, Porto and Porto Alegre, WHO; a model must know."""
    few, many = tuple(map(spelling.strip_accents, short.words)), tuple(map(spelling.strip_accents, full.words))
    n = len(few)
    initials = "".join(word[0] for word in many)
    return NameMatch(n < len(many) and (few in (many[:n], many[-n:]) or (len(initials) > 2 and few == (initials,))))


def _match_short_name(short: ParsedName, full: ParsedName) -> NameMatch:
    """People: whether the short name leaves words of the full one out, or only their initials in."""
    places = _locate_words(short.words, full.words)
    if not places:
        return _match_unspaced_name(short, full) if len(short.words) == 1 else NameMatch.NONE
    first, last = places[0] == 0, places[-1] == len(full.words) - 1
    family = last and not first
    if full.is_descriptive or f"{spelling.strip_accents(short.words[-1])}-" in spelling.strip_accents(full.base):
        return NameMatch.MAYBE  # Jonas' wife is not Jonas, Jean is not Jean-Luc
    if _GENERATIONS & ({*map(spelling.strip_accents, short.words)} ^ {*map(spelling.strip_accents, full.words)}):
        return NameMatch.MAYBE
    if short.title_usage == "family" and (family or first != last):
        # Dr. Weber is Anna Weber, but Mr Weber may be her husband, and Mr Martin is no Martin Weber.
        return NameMatch.SHORT if family and short.sex in ("", full.sex) else NameMatch.MAYBE
    return NameMatch.SHORT if first or (last and short.title_usage == "any") else NameMatch.MAYBE


def _locate_words(short: tuple[str, ...], full: tuple[str, ...]) -> list[int]:
    """Where the words of the short name stand in the full one, in order; none if one does not, or initials alone do."""
    places: list[int] = []
    spelled_out = False
    for word in short:
        for place in range(places[-1] + 1 if places else 0, len(full)):
            is_word = spelling.is_same_word(word, full[place])
            is_initial = (
                1 in (len(word), len(full[place]))
                and spelling.strip_accents(word)[0] == spelling.strip_accents(full[place])[0]
            )
            if is_word or (is_initial and word.upper() != word):
                places.append(place)
                spelled_out = spelled_out or bool(is_word)
                break
        else:
            return []
    return places if spelled_out else []


def _match_unspaced_name(short: ParsedName, full: ParsedName) -> NameMatch:
    """Names without a border: 山田 in 山田太郎, 민수 in 김민수. 太郎 ends 健太郎, somebody else; マリ begins マリア."""
    few, many = short.joined_words, full.joined_words
    rest = len(many) - len(few)
    if rest < 1:
        return NameMatch.NONE
    if spelling.is_han(few) and many.startswith(few):
        return NameMatch.SHORT if len(few) > 1 and (rest > 1 or not spelling.is_han(many[-rest:])) else NameMatch.MAYBE
    if spelling.is_hangul(many) and many.endswith(few) and len(few) > 1 and rest == 1:
        return NameMatch.SHORT
    if (spelling.is_han(few) and many.endswith(few) and len(few) > 1) or (spelling.is_hangul(many) and many[0] == few):
        return NameMatch.MAYBE
    return NameMatch.NONE
