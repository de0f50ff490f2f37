"""A sentence goes in; the names in it come out, told by a spaCy model or, without one, by how they are written.

spaCy is the extra ``spacy``; a model of a language is installed beside it (``spacy download en_core_web_sm``).
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

from adk_graph_memory.extraction.sentences import ABBREVIATED
from adk_graph_memory.language.dates import calendar_words
from adk_graph_memory.language.words import WIDE, WORD, ordinary_words


class Name(NamedTuple):
    """A name as it is written, and what kind of thing it names, where that is known."""

    words: str
    type: str = "name"
    opens: bool = False
    """whether it opens its sentence, where its first word would have a capital anyway"""


class NameFinder(Protocol):
    """Finds names in a sentence; ``version`` stands for what it knows."""

    version: str

    def find(self, sentence: str, language: str) -> Iterable[Name]:
        """The names in a sentence of this language."""


_TOKEN = re.compile(rf"(?<!\w)[^\W\d_{WIDE}]\.(?=\s?[^\W\d_{WIDE}])|{WORD.pattern}")
_INSIDE_NAMES = re.compile("van|von|der|den|del?|della|di|da|dos|la|le|bin|ibn|al|of|y|e")
_INSIDE = re.compile(r"[^\W\d_][^:*•–—]*$")
_JOINS = re.compile(r" | & |\s?(?=\.)|(?<=\.)\s?")
_TITLED = re.compile(
    r"(?<![お御\u4e00-\u9fff\u30a0-\u30ff])([\u4e00-\u9fff]{2,5}|[\u30a0-\u30ff]{2,})(?=さん|さま|様|くん|ちゃん)"
    r"|(?<![가-힣])([가-힣]{2,4})(?=\s씨)|([\u30a1-\u30fa\u30fc]+(?:[・＝][\u30a1-\u30fa\u30fc]+)+)"
)
_FOREIGN = re.compile(
    rf"(?<![{WIDE}])[{WIDE}]{{2,8}}(?![{WIDE}])|(?<!\w)[\u0590-\u074f]{{2,}}(?: [\u0590-\u074f]{{2,}})?(?!\w)"
)
_NOUN_BEHIND = re.compile(r"\b(?:[ai]m|[ai]ns|vom|zu[mr]|beim|das|\w*(?:e|en|er|es|em|ein))\s+$", re.IGNORECASE)
_NOUN = re.compile(r"\w+(?:ung|heit|keit|schaft|tion|tät|nis|zeit|tag|jahr)e?[ns]?$")
"""German writes every noun with a capital: behind an article or an adjective, or with such an ending, it is no name."""
_LONGEST, _NEAR = 7, 60
"""Words that a name has at most (more are a title or shouting), and characters before it that tell what it is."""

_CASED = rf"(?-i:[^\W\d_a-z{WIDE}])[^\W\d_]+"
_MY_NAME_IS = re.compile(
    r"\W*(?:\w+(?: \w+)?[,!]\s+)?(?:my (?:full )?name['’]?(?: i)?s|I(?:['’]m| am) called|me llamo|mi nombre es"
    r"|ich hei(?:ß|ss)e|mein name ist|je m['’]appelle|mi chiamo|me chamo|ik heet|με λένε|меня зовут)\s+"
    rf"({_CASED}(?:[ \-](?:(?:van|von|de|der|la|bin|al) )*{_CASED}){{0,3}})"
    r"(?=\s*(?:[.,;:!()]|$|\b(?:and|but|und|aber|y|pero|и|а|et)\b))"
    r"|(?:.{0,6}[、。！，,!\s])?(?:私|僕|俺|わたし)の名前は([^\s、。，！!?？はがをに]{1,12}?)(?:です|だ|といいます|と申します)"
    r"|(?:.{0,6}[。！，,!\s])?(?:我叫|我的名字(?:是|叫))([\u4e00-\u9fff]{2,4})(?=[，。！,.!\s]|$)",
    re.IGNORECASE,
)
_CALLED = re.compile(
    rf",?\s*(?:and|but|und|aber) (?:every(?:one|body) calls me|alle nennen mich) ({_CASED})(?=[.,;!]|$)", re.IGNORECASE
)


def own_names(sentence: str) -> list[str]:
    """The name that its speaker gives themselves in plain words at its beginning, if they do, and their nickname."""
    match = _MY_NAME_IS.match(sentence)
    nickname = _CALLED.match(sentence, match.end()) if match else None
    given = [str(found[found.lastindex or 0]) for found in (match, nickname) if found]
    return [name for name in given if not name[:1].islower()]


class WrittenNames:
    """Tells names by their capitals, and without such by titles, particles and words of one script inside another."""

    version = "written"

    def find(self, sentence: str, language: str) -> Iterator[Name]:
        """The names in a sentence of this language."""
        yield from (Name(next(filter(None, match.groups()))) for match in _TITLED.finditer(sentence))
        if language not in ("ja", "zh", "ko", "th", "ar", "fa", "he"):
            yield from map(Name, _FOREIGN.findall(sentence))
        for run in _runs(sentence, language):
            if 0 < len(run) <= _LONGEST:
                yield from _name(sentence, run, language)


def _runs(sentence: str, language: str) -> Iterator[list[re.Match[str]]]:
    """Words that begin with a capital and stand together, "van" and the like between them."""
    run: list[re.Match[str]] = []
    for match in _TOKEN.finditer(sentence):
        is_title = ABBREVIATED.fullmatch(match[0]) and sentence.startswith(".", match.end())
        is_capital = _is_capitalised(match[0], language) and not is_title
        goes_on = run and _JOINS.fullmatch(sentence, run[-1].end(), match.start())
        if run and not (goes_on and (is_capital or _INSIDE_NAMES.fullmatch(match[0]))):
            yield run
            run = []
        if is_capital or run:
            run.append(match)
    yield run


def _is_capitalised(word: str, language: str) -> bool:
    if len(word) == 1 or word[:2] in ("I'", "I’") or word.casefold() in calendar_words(language):
        return False
    return word[0].isupper() and not (word.isupper() and len(word) > 5)


def _name(sentence: str, run: list[re.Match[str]], language: str) -> Iterator[Name]:
    """The name that a run of capitalised words is, without the ordinary words around it."""
    before = sentence[: run[0].start()][-_NEAR:]
    opens = not _INSIDE.search(before)
    while run and _INSIDE_NAMES.fullmatch(run[-1][0]):
        run.pop()
    while run and run[0][0].casefold() in ordinary_words(language) and (opens or len(run) == 1):
        run, opens = run[1:], False
    before = sentence[: run[0].start()][-_NEAR:] if run else ""
    if language == "de" and run and (_NOUN_BEHIND.search(before) or _NOUN.fullmatch(run[0][0])):
        run, opens = run[1:], False
    while run and _INSIDE_NAMES.fullmatch(run[0][0]):
        run = run[1:]
    if run and not (len(run) == 1 and (opens or run[0][0].endswith("."))):
        yield Name(sentence[run[0].start() : run[-1].end()], opens=opens)


_KINDS = {"PERSON": "person", "PER": "person", "ORG": "organization", "EVENT": "event", "MISC": "name"}
_KINDS |= dict.fromkeys(("GPE", "LOC", "FAC"), "place") | dict.fromkeys(("PRODUCT", "WORK_OF_ART"), "object")
_ONE_AT_A_TIME = threading.Lock()


@cache
def installed_names() -> NameFinder:
    """What tells names best here: spaCy's models where some are installed."""
    if importlib.util.find_spec("spacy") is None:
        return WrittenNames()
    from spacy.util import get_installed_models

    return SpacyNames(get_installed_models())


class SpacyNames:
    """Tells names by a model of the language (of several by lg), and where there is none by how they are written."""

    def __init__(self, models: Sequence[str]) -> None:
        self._models = {model.partition("_")[0]: model for model in sorted(models, reverse=True)}
        self._written = WrittenNames()
        self.version = " ".join(sorted(self._models.values())) or self._written.version

    def find(self, sentence: str, language: str) -> Iterator[Name]:
        """The names in a sentence of this language."""
        if language not in self._models:
            yield from self._written.find(sentence, language)
            return
        with _ONE_AT_A_TIME:
            doc = _loaded(self._models[language])(sentence)
        for entity in doc.ents:
            tokens = [token for token in entity if token.pos_ not in ("DET", "PART", "PUNCT")]
            if entity.label_ in _KINDS and any(token.pos_ == "PROPN" for token in tokens):
                yield Name(doc[tokens[0].i : tokens[-1].i + 1].text, _KINDS[entity.label_])


@cache
def _loaded(model: str) -> Any:
    import spacy

    return spacy.load(model)
