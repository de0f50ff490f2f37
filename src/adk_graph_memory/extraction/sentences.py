"""A text goes in; the places of its sentences come out, what only makes sense after another joined to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from adk_graph_memory.language.words import WIDE_CHARACTER

_LINE = re.compile(r"[^\r\n\v\f\u2028\u2029]+")
_END = re.compile(
    r"[。！？]+[」』”）)]*"
    r"|(?<![.!?…؟⁇⁈])[.!?…؟⁇⁈]++[\"'”’»）)*_]*+(?=\s+\S)"
    r"|(?<![!?؟])[!?؟]++(?=[^\s\w.,;:)\"'”’»\]}/&=])"
)
_LAST_WORD = re.compile(r"(?:[^\W\d_]+|\d+)$")
_ABBREVIATED = frozenset(
    [
        "mr",
        "mrs",
        "ms",
        "mx",
        "dr",
        "prof",
        "st",
        "sr",
        "jr",
        "sra",
        "srta",
        "mme",
        "fr",
        "hr",
        "rev",
        "hon",
        "gen",
        "col",
        "sgt",
        "vs",
        "eg",
        "ie",
        "etc",
        "approx",
        "dept",
        "est",
        "fig",
        "no",
        "nr",
        "bzw",
        "ca",
        "evtl",
        "ggf",
        "inkl",
        "usw",
        "vgl",
        "str",
        "tel",
        "г",
        "ул",
        "д",
        "стр",
        "кв",
        "обл",
        "им",
        "inc",
        "ltd",
        "co",
        "corp",
        "jan",
        "feb",
        "mar",
        "apr",
        "jun",
        "jul",
        "aug",
        "sep",
        "sept",
        "oct",
        "nov",
        "dec",
    ]
)
_ORDINALS = frozenset(("de", "da", "nb", "fi", "cs", "hu", "pl"))
"""Languages that write "the 3rd of March" as "3. March"."""
_CLOSERS = " \t\"'”’»）)]」』*_"
_VALUE = re.compile(r"\W*(?:\+?\d[\d\s().\-/]{4,}\d|[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+|https?://\S+)\W*")
_DEPENDENT = re.compile(
    r"(?:It|They|He|She)\b|(?:That|This|These|Those)(?:['’]s|\s+(?:is|was|are|were|isn['’]t|wasn['’]t|has|had|will)\b)"
)
_LONGEST_DEPENDENT = 14
"""Words above which a sentence stands alone, whatever it begins with."""
_LONGEST_PASSAGE = 320


@dataclass(frozen=True, slots=True)
class Passage:
    """A sentence's place in a text, or that of a sentence and the short ones that lean on it."""

    start: int
    end: int
    first_end: int
    """where its first sentence ends"""
    last: int
    """where its last one starts"""


def sentences(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence; a point after an initial, an abbreviation or before a small letter ends none."""
    for line in _LINE.finditer(text):
        start = 0
        for match in _END.finditer(line[0]):
            if _ends(line[0], match, language):
                yield from _stripped(text, line.start() + start, line.start() + match.end())
                start = match.end()
        yield from _stripped(text, line.start() + start, line.end())


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    if words := text[start:end].strip():
        place = text.index(words, start)
        yield place, place + len(words)


def _ends(line: str, match: re.Match[str], language: str) -> bool:
    following = line[match.end() : match.end() + 40].lstrip()
    if match[0][0] not in ".…":
        return match[0][0] in "。！？" or not following[:1].islower()
    if following[:1].islower():
        return False
    if match[0] != ".":
        return True
    word = _LAST_WORD.search(line, max(0, match.start() - 30), match.start())
    if word is None:
        return True
    if word[0].isdigit():
        return not (language in _ORDINALS and len(word[0]) <= 2) and (word.start() > 0 or len(word[0]) > 2)
    if len(word[0]) == 1 and not WIDE_CHARACTER.match(word[0]):
        return word[0] == "I" and language == "en"
    shortened = word[0].casefold() in _ABBREVIATED or (language == "de" and word[0].endswith("str"))
    return not (shortened and (word[0].casefold() != "no" or following[:1].isdigit()))


def passages(text: str, language: str) -> list[Passage]:
    """The text's sentences; one that begins with "It is …" or is only a number goes with the one before it."""
    found: list[Passage] = []
    for start, end in sentences(text, language):
        before = found[-1] if found else None
        if before and _leans(text[start:end]) and _bears(text[before.start : before.end], end - before.start):
            found[-1] = Passage(before.start, end, before.first_end, start)
        else:
            found.append(Passage(start, end, end, start))
    return found


def is_question(sentence: str) -> bool:
    """Whether it ends with a question mark of any script, closing quotes aside."""
    return sentence.rstrip(_CLOSERS).endswith(("?", "？", "؟", "⁇", "⁈", "?!")) or sentence.rstrip(
        _CLOSERS + "!"
    ).endswith("?")


def _leans(sentence: str) -> bool:
    if len(sentence) > _LONGEST_PASSAGE or is_question(sentence):
        return False
    if _VALUE.fullmatch(sentence):
        return True
    return bool(_DEPENDENT.match(sentence)) and len(sentence.split()) <= _LONGEST_DEPENDENT


def _bears(sentence: str, length: int) -> bool:
    """Whether another may lean on it: a question does not say what "it" is, a word or two neither."""
    return length <= _LONGEST_PASSAGE and not is_question(sentence) and len(sentence.split()) > 2
