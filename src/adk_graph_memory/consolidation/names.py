"""Parse names in any script and rate how well two of them match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Literal

from anyascii import anyascii

from adk_graph_memory.language import spelling
from adk_graph_memory.language.text import fold_text

Sex = Literal["m", "f", ""]


class NameMatch(IntEnum):
    """How well two names match; below ``SHORT`` no rule may decide."""

    NONE = 0
    MAYBE = 1
    SHORT = 2
    """one is a short form of the other, or its alias"""
    LOOSE = 3
    """equal except for accents, titles, legal forms and punctuation"""
    EXACT = 4


@dataclass(frozen=True, slots=True)
class ParsedName:
    """The parts of a name: "Dr. Anna Weber (vet)" has the words anna and weber, a title and a note."""

    base: str
    note: str
    words: tuple[str, ...]
    sex: Sex = ""
    title_usage: str = ""
    """``family`` if its title precedes a family name, ``any`` if it goes with given and family names"""
    legal_form: str = ""
    is_descriptive: bool = False
    """whether part of it describes rather than names: Jonas' wife"""

    @property
    def joined_words(self) -> str:
        """The words joined, without accents."""
        return "".join(map(spelling.strip_accents, self.words))


def _normalize_word_set(words: str) -> frozenset[str]:
    """Normalize words for comparison, without spaces: ``S.p.A.`` and ``SpA`` are equal."""
    return frozenset(
        "".join(map(spelling.strip_accents, spelling.normalize_words(fold_text(word)))) for word in words.split()
    )


def _map_words_to_sex(words: Mapping[Sex, str]) -> dict[str, Sex]:
    return {word: sex for sex, text in words.items() for word in _normalize_word_set(text)}


# Words that accompany a name, spelled as people write them. Words that are also common names or initials are left out:
# French "M.", Spanish "don", Japanese 君.
_TITLES = _map_words_to_sex(
    {
        "m": "mr mister herr monsieur señor sr signor senhor г-н господин κύριος κος السيد מר श्रीमान sir",
        "f": "mrs ms miss frau fräulein madame mme mademoiselle mlle señora sra señorita srta signora senhora pani "
        "г-жа госпожа κυρία κα السيدة גברת גב' श्रीमती",
        "": "dr doctor doktor dra docteur prof professor professeur profesor profesora ing д-р доктор проф профессор "
        "δρ δόκτωρ καθηγητής د. دكتور الدكتور الدكتورة الأستاذ الأستاذة ד\"ר פרופ' श्री डॉ डॉक्टर",
    }
)
"""Words before a name, mostly a family name."""
_HONORIFIC_SUFFIXES = _map_words_to_sex(
    {"m": "bey", "f": "hanım 小姐 女士 太太 夫人", "": "さん さま 様 くん ちゃん 先生 老师 老師 씨 님 선생님 जी"}
)
"""Words after a given or family name; attached to it in scripts without spaces."""
_ROMANISED_HONORIFICS = ("-san", "-sama", "-sensei", "-kun", "-chan", "-ssi", "-nim", "-ji")
"""With a hyphen only; as separate words some are names (Jackie Chan, Aung San)."""
_HONORIFIC_PREFIXES = _map_words_to_sex({"m": "นาย", "f": "นางสาว นาง", "": "คุณ ดร"})
"""Words attached before a given name."""
_GENERATIONS = _normalize_word_set("jr junior sr senior ii iii iv filho neto fils père младший старший")
"""Words that tell father and son apart; they are part of the name."""
_PARTICLES = _normalize_word_set(
    "van von der den ter ten op zu af av de del della degli di da do dos das du la le los las el al bin ibn bint y e i"
)
"""Lower-case words in people's names; any other lower-case word is a description: Jonas' wife."""
_LEGAL_SUFFIXES = _normalize_word_set(
    "inc incorporated corp corporation co company ltd limited llc llp lp plc pty gmbh mbh ag kg ohg gbr kgaa se ug "
    "gmbh&co.kg e.v. s.a. s.a.r.l. sas s.a.s. s.l. s.p.a. s.r.l. snc n.v. b.v. ab oy oyj a/s aps asa as s.r.o. "
    "a.s. sp.z.o.o. kft zrt nyrt d.o.o. a.ş. ltda s.a.b. sdn.bhd. bhd pvt pvtltd coltd ооо оао пао ао зао α.ε. ε.π.ε. "
    'בע"מ ش.م.ل ذ.م.م लिमिटेड प्रा.लि. 株式会社 有限会社 合同会社 '
    "有限公司 股份有限公司 有限责任公司 주식회사 유한회사 จำกัด"
)
_LEGAL_PREFIXES = _normalize_word_set(
    "ооо оао пао ао зао pt 株式会社 有限会社 合同会社 (株) 주식회사 (주) บริษัท شركة חברת"
)
_KINDS_WITH_NAMES = ("person", "organization", "place")
"""Kinds whose entities have names of their own; of the others some are called by a common noun."""
_LEGAL_ABBREVIATIONS = {
    "incorporated": "inc",
    "corporation": "corp",
    "company": "co",
    "limited": "ltd",
    "株": "株式会社",
    "주": "주식회사",
    "股份有限公司": "有限公司",
}
_ARTICLES = _normalize_word_set("the")
"""English only: in La Paz, El Salvador or Die Zeit the article is part of the name."""


def _strip_affix(
    words: tuple[str, ...], affixes: Iterable[str], *, end: bool, most: int = 4
) -> tuple[tuple[str, ...], str]:
    """Strip an affix at this end and return it with the other words; attached ones only in scripts without spaces."""
    for n in range(min(most, len(words) - 1), 0, -1):
        affix = "".join(map(spelling.strip_accents, words[-n:] if end else words[:n]))
        if affix in affixes:
            return (words[:-n] if end else words[n:]), affix
    word = words[-1 if end else 0] if words else ""
    for affix in sorted(affixes, key=len, reverse=True):
        rest = word.removesuffix(affix) if end else word.removeprefix(affix)
        if rest in ("", word) or not spelling.is_unspaced(affix) or "\u0e30" <= rest[0] <= "\u0e3a":
            continue
        if end or len(affix) > 1:
            return ((*words[:-1], rest) if end else (rest, *words[1:])), affix
    return words, ""


@lru_cache(maxsize=16_384)
def parse_name(name: str, kind: str) -> ParsedName:
    """Parse a name of this kind: only people have titles, only organizations have legal forms."""
    text = fold_text(name)
    base, bracket, note = text.removesuffix(")").rpartition("(") if text.endswith(")") else (text, "", "")
    if not base.strip():
        base, note = text, ""
    base, note = base.strip(), note.strip() if bracket else ""
    if kind == "person":
        lower = {word for part in name.split() if part.islower() for word in spelling.normalize_words(fold_text(part))}
        person = _parse_person(base, note)
        return replace(person, is_descriptive=not lower.isdisjoint({*person.words} - _PARTICLES))
    words, suffix = spelling.normalize_words(base), ""
    if kind in ("organization", "place"):
        words, _ = _strip_affix(words, _ARTICLES, end=False)
    if kind == "organization":
        words, suffix = _strip_affix(words, _LEGAL_SUFFIXES, end=True)
        words, prefix = _strip_affix(words, _LEGAL_PREFIXES, end=False)
        suffix = _LEGAL_ABBREVIATIONS.get(suffix or prefix, suffix or prefix)
    return ParsedName(base, note, words, legal_form=suffix)


def _parse_person(base: str, note: str) -> ParsedName:
    sex: Sex = ""
    title = ""
    text = base
    for ending in _ROMANISED_HONORIFICS:
        if text.endswith(ending) and text != ending:
            text, title = text.removesuffix(ending), "any"
    family, comma, given = text.partition(",")
    if comma and given.strip() and not _normalize_word_set(given.replace(" ", "")) & _GENERATIONS:
        text = f"{given} {family}"
    words = spelling.normalize_words(text)
    for affixes, end, usage in (
        (_TITLES, False, "family"),
        (_HONORIFIC_PREFIXES, False, "any"),
        (_HONORIFIC_SUFFIXES, True, "any"),
    ):
        while (shorter := _strip_affix(words, affixes, end=end, most=2))[1]:
            words, sex, title = shorter[0], sex or affixes[shorter[1]], title or usage
    return ParsedName(base, note, words, sex, title)


@lru_cache(maxsize=16_384)
def compute_blocking_keys(name: str, kind: str) -> frozenset[str]:
    """Compute keys such that two names share one if they can match at all: words, character pairs, initials."""
    parsed_names = [parse_name(name, ""), parse_name(name, kind)]
    keys = {parsed_names[0].base, *(parsed.joined_words for parsed in parsed_names)}
    for words in (parsed.words for parsed in parsed_names):
        if len(words) > 2:
            keys.add("".join(spelling.strip_accents(word)[0] for word in words))
        for word in words:
            bare = spelling.strip_accents(word)
            keys |= {bare, spelling.expand_umlauts(word), _romanize(bare), *spelling.list_singulars(bare)}
            if spelling.is_unspaced(bare):
                keys |= {bare[0], *(bare[i : i + 2] for i in range(len(bare) - 1))}
    return frozenset(keys - {""})


def match_names(name: ParsedName, other: ParsedName, kind: str, *, sure_of_kind: bool = True) -> NameMatch:
    """Rate how well two names of one kind match; if the kind is a guess, a short form is at most ``MAYBE``."""
    if name.base == other.base:
        return NameMatch.EXACT
    if (name.sex and other.sex and name.sex != other.sex) or not name.words or not other.words:
        return NameMatch.NONE
    if whole := _match_whole_name(name, other):
        return whole
    if _is_romanized(name, other) or (kind not in _KINDS_WITH_NAMES and _is_plural(name, other)):
        return NameMatch.MAYBE
    part = NameMatch.NONE
    if kind == "person":
        part = _match_short_name(*sorted((name, other), key=lambda name: (len(name.words), len(name.joined_words))))
    elif kind in ("organization", "place"):
        part = _match_partial_name(*sorted((name, other), key=lambda name: len(name.words)))
    return part if sure_of_kind else min(part, NameMatch.MAYBE)


@lru_cache(maxsize=16_384)
def _romanize(word: str) -> str:
    """Spell the word in Latin letters, without accents: sasha for саша, tianzhong for 田中."""
    bare = spelling.strip_accents(word)
    return bare if bare.isascii() else anyascii(bare).casefold()


def _is_romanized(name: ParsedName, other: ParsedName) -> bool:
    """Whether one name may be the other in Latin letters: Sasha and Саша."""
    words, other_words = ([_romanize(word) for word in parsed.words] for parsed in (name, other))
    return words == other_words and name.joined_words.isascii() != other.joined_words.isascii()


def _is_plural(name: ParsedName, other: ParsedName) -> bool:
    """Whether two names may differ in number alone: bee and bees."""
    *words, last = map(spelling.strip_accents, name.words)
    *other_words, other_last = map(spelling.strip_accents, other.words)
    return words == other_words and (
        last in spelling.list_singulars(other_last) or other_last in spelling.list_singulars(last)
    )


def has_name_conflict(name: ParsedName, other: ParsedName) -> bool:
    """Whether two full names share a word and differ in others: Inés Moreau and Inés Costa, Acme GmbH and Acme Inc."""
    if name.legal_form and other.legal_form and name.legal_form != other.legal_form:
        return True
    if min(len(name.words), len(other.words)) < 2 or match_names(name, other, "person"):
        return False
    return not {*map(spelling.strip_accents, name.words)}.isdisjoint(map(spelling.strip_accents, other.words))


def _match_whole_name(name: ParsedName, other: ParsedName) -> NameMatch:
    if len(name.words) == len(other.words):
        same_words = [spelling.is_same_word(a, b) for a, b in zip(name.words, other.words, strict=True)]
        if False not in same_words:
            # Acme GmbH and Acme Inc.
            has_other_form = name.legal_form and other.legal_form and name.legal_form != other.legal_form
            return NameMatch.MAYBE if None in same_words or has_other_form else NameMatch.LOOSE
    if name.joined_words == other.joined_words:
        return NameMatch.LOOSE if spelling.is_unspaced(name.joined_words) else NameMatch.MAYBE
    if sorted(map(spelling.strip_accents, name.words)) == sorted(map(spelling.strip_accents, other.words)):
        return NameMatch.MAYBE  # Thomas Martin and Martin Thomas
    return NameMatch.NONE


def _match_partial_name(short: ParsedName, full: ParsedName) -> NameMatch:
    """Match organizations and places: Acme and Acme Labs, Porto and Porto Alegre, WHO; at most ``MAYBE``."""
    few, many = tuple(map(spelling.strip_accents, short.words)), tuple(map(spelling.strip_accents, full.words))
    n = len(few)
    initials = "".join(word[0] for word in many)
    return NameMatch(n < len(many) and (few in (many[:n], many[-n:]) or (len(initials) > 2 and few == (initials,))))


def _match_short_name(short: ParsedName, full: ParsedName) -> NameMatch:
    """Match people: the short name omits words of the full one or has only their initials."""
    positions = _locate_words(short.words, full.words)
    if not positions:
        return _match_unspaced_name(short, full) if len(short.words) == 1 else NameMatch.NONE
    has_first, has_last = positions[0] == 0, positions[-1] == len(full.words) - 1
    is_family_name = has_last and not has_first
    if full.is_descriptive or f"{spelling.strip_accents(short.words[-1])}-" in spelling.strip_accents(full.base):
        return NameMatch.MAYBE  # Jonas' wife is not Jonas, Jean is not Jean-Luc
    if _GENERATIONS & ({*map(spelling.strip_accents, short.words)} ^ {*map(spelling.strip_accents, full.words)}):
        return NameMatch.MAYBE
    if short.title_usage == "family" and (is_family_name or has_first != has_last):
        # Dr. Weber is Anna Weber, but Mr Weber may be her husband, and Mr Martin is not Martin Weber.
        return NameMatch.SHORT if is_family_name and short.sex in ("", full.sex) else NameMatch.MAYBE
    return NameMatch.SHORT if has_first or (has_last and short.title_usage == "any") else NameMatch.MAYBE


def _locate_words(short: tuple[str, ...], full: tuple[str, ...]) -> list[int]:
    """Return the positions of the short name's words in the full one; none if a word is missing or all are initials."""
    positions: list[int] = []
    has_whole_word = False
    for word in short:
        for position in range(positions[-1] + 1 if positions else 0, len(full)):
            is_word = spelling.is_same_word(word, full[position])
            is_initial = (
                1 in (len(word), len(full[position]))
                and spelling.strip_accents(word)[0] == spelling.strip_accents(full[position])[0]
            )
            if is_word or (is_initial and word.upper() != word):
                positions.append(position)
                has_whole_word = has_whole_word or bool(is_word)
                break
        else:
            return []
    return positions if has_whole_word else []


def _match_unspaced_name(short: ParsedName, full: ParsedName) -> NameMatch:
    """Match names without spaces: 山田 in 山田太郎, 민수 in 김민수. 太郎 need not be 健太郎, nor マリ be マリア."""
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
