"""Sentences go in; the names in them come out, told by how they are written, since no model reads them.

Cased scripts: runs of capitalised words, other than a sentence's first word. Scripts without case: what a title or a
particle marks as a name, and words of one script inside a sentence of another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adk_graph_memory.language.dates import calendar_words
from adk_graph_memory.language.words import WIDE, WORD, ordinary_words

_TITLE = re.compile(r"\.\s")
_TOKEN = re.compile(rf"(?<!\w)[^\W\d_{WIDE}]\.(?=\s?[^\W\d_{WIDE}])|{WORD.pattern}")
_INSIDE_NAMES = frozenset(
    [
        "van",
        "von",
        "der",
        "den",
        "de",
        "del",
        "della",
        "di",
        "da",
        "dos",
        "la",
        "le",
        "bin",
        "ibn",
        "al",
        "of",
        "y",
        "e",
    ]
)
_JOINS = re.compile(r" | & |\s?(?=\.)|(?<=\.)\s?")
_OPENERS = re.compile(r"[\"'“”„«»‹‘¿¡(\[*_\-–—•>#]\s*$")
_TITLED = re.compile(
    r"(?<![お御\u4e00-\u9fff\u30a0-\u30ff])([\u4e00-\u9fff]{2,5}|[\u30a0-\u30ff]{2,})(?=さん|さま|様|くん|ちゃん)"
    r"|(?<![가-힣])([가-힣]{2,4})(?=\s씨)"
)
_DOTTED = re.compile(r"[\u30a1-\u30fa\u30fc]+(?:[・＝][\u30a1-\u30fa\u30fc]+)+")
_FOREIGN = re.compile(
    rf"(?<![{WIDE}])[{WIDE}]{{2,8}}(?![{WIDE}])|(?<!\w)[\u0590-\u074f]{{2,}}(?: [\u0590-\u074f]{{2,}})?(?!\w)"
)
_THING_BEFORE = re.compile(
    r"\b(?:d(?:er|ie|as|en|em|es)|(?:k|m|d|s)?ein(?:e[mnrs]?)?|(?:ihr|unser|euer|eur|dies|jed|viel|wenig|all|welch)"
    r"(?:e[mnrs]?)?|[ai]m|[ai]ns|zu[mr]|vom|beim|kein\w*|\w+(?:e|en|er|es|em))\s+$",
    re.IGNORECASE,
)
_ABSTRACT = re.compile(r"\w+(?:ung|heit|keit|schaft|tion|tät|nis|zeit|tag|jahr)e?[ns]?$")
_PHRASE = re.compile(
    r"\b(?:the|my|our)\s+((?:[a-z]{3,}\s){0,2}[a-z]{3,})"
    r"(?=[.,;:!?)]|$|\s+(?:is|was|are|were|has|had|in|of|on|at|for|with|and|to|from|by|that|who|which)\b)"
)
_LONGEST = 6
"""Words that a name has at most; a longer run is a title or shouting."""


@dataclass(frozen=True, slots=True)
class Found:
    """A name as it is written, and what kind of thing it names, where that is known."""

    name: str
    type: str = "name"


@dataclass(frozen=True, slots=True)
class _Run:
    words: str
    opens: bool


def names(sentences: Sequence[tuple[str, str]]) -> list[Found]:
    """The names in sentences (each with its language), in the order in which they are first used."""
    inside, opening = Counter[str](), Counter[str]()
    order: dict[str, None] = {}
    for sentence, language in sentences:
        for run in _runs(sentence, language):
            order.setdefault(run.words)
            (opening if run.opens else inside)[run.words] += 1
    lower = {word for sentence, _ in sentences for word in WORD.findall(sentence) if word.islower()}
    kept = [
        name
        for name in order
        if name in inside
        or (" " in name and not _is_tail(name, inside))
        or (opening[name] > 1 and name.casefold() not in lower)
    ]
    return [Found(name) for name in kept]


def _is_tail(name: str, inside: Counter[str]) -> bool:
    """Whether a sentence's first word only stands before a name ("Perhaps Anna", where Anna is known)."""
    return name.partition(" ")[2] in inside


def phrases(turns: Sequence[Sequence[tuple[str, str]]]) -> list[Found]:
    """English noun phrases and Japanese loan words that more than one turn uses: what the talk keeps coming back to."""
    seen = Counter[str]()
    for sentences in turns:
        here = (match for sentence, language in sentences for match in _phrases_of(sentence, language))
        seen.update(sorted(set(here)))
    return [Found(phrase, "thing") for phrase, count in seen.items() if count > 1]


def _phrases_of(sentence: str, language: str) -> Iterator[str]:
    if language == "en":
        for match in _PHRASE.finditer(sentence):
            words = match[1].split()
            if not any(word in ordinary_words("en") or word in calendar_words("en") for word in words):
                yield match[1]
    if language == "ja":
        yield from re.findall(r"(?<![\u30a0-\u30ff])[\u30a1-\u30fa\u30fc]{3,}(?![\u30a0-\u30ff])", sentence)


def _runs(sentence: str, language: str) -> Iterator[_Run]:
    yield from (_Run(words, opens=False) for words in _uncased(sentence, language))
    run: list[re.Match[str]] = []
    for match in _TOKEN.finditer(sentence):
        if run and not _continues(sentence, run, match):
            yield from _run(sentence, run, language)
            run = []
        if (run and match[0] in _INSIDE_NAMES) or (
            _is_capitalised(match[0], language) and not _is_a_title(sentence, match)
        ):
            run.append(match)
        elif run:
            yield from _run(sentence, run, language)
            run = []
    if run:
        yield from _run(sentence, run, language)


def _continues(sentence: str, run: list[re.Match[str]], match: re.Match[str]) -> bool:
    return _JOINS.fullmatch(sentence, run[-1].end(), match.start()) is not None


def _is_capitalised(word: str, language: str) -> bool:
    if word.endswith("."):
        return word[0].isupper()
    if len(word) == 1 or word[:2] in ("I'", "I’") or word.casefold() in calendar_words(language):
        return False
    return word[0].isupper() and not (word.isupper() and len(word) > 5)


def _is_a_title(sentence: str, match: re.Match[str]) -> bool:
    """Whether it is shortened and what it is short for comes before a name ("Dr. Anna")."""
    return 1 < len(match[0]) <= 5 and bool(_TITLE.match(sentence, match.end()))


def _run(sentence: str, run: list[re.Match[str]], language: str) -> Iterator[_Run]:
    """The name that a run of capitalised words is, without the ordinary words around it."""
    opens = not WORD.search(sentence[: run[0].start()]) or bool(_OPENERS.search(sentence[: run[0].start()][-3:]))
    ordinary = ordinary_words(language)
    while run and run[-1][0] in _INSIDE_NAMES:
        run = run[:-1]
    while run and (run[0][0].casefold() in ordinary or run[0][0].endswith(".")) and (opens or len(run) == 1):
        if run[0][0].endswith(".") and len(run) > 1:
            break
        run, opens = run[1:], False if len(run) > 1 else opens
    while run and run[0][0] in _INSIDE_NAMES:
        run = run[1:]
    if opens and len(run) == 1 and not re.match(r"['’]?s?\s+\w", sentence[run[0].end() :][:4]):
        return
    if not run or len(run) > _LONGEST or (len(run) == 1 and run[0][0].endswith(".")):
        return
    words = sentence[run[0].start() : run[-1].end()]
    if language == "de" and _is_a_noun(sentence[: run[0].start()], run[0][0]):
        if len(run) == 1:
            return
        words = sentence[run[1].start() : run[-1].end()]
    yield _Run(words, opens)


def _is_a_noun(before: str, word: str) -> bool:
    """German writes every noun with a capital: after an article, an adjective or with such an ending it is no name."""
    return bool(_THING_BEFORE.search(before[-16:])) or bool(_ABSTRACT.fullmatch(word))


def _uncased(sentence: str, language: str) -> Iterator[str]:
    for match in _TITLED.finditer(sentence):
        yield match[1] or match[2]
    yield from _DOTTED.findall(sentence)
    if language not in ("ja", "zh", "ko", "th", "ar", "fa", "he"):
        yield from _FOREIGN.findall(sentence)
