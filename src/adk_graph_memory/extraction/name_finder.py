"""Find the names in a sentence with a spaCy model or, without one, by how they are written.

Who wants spaCy installs it and its models (``pip install spacy``, ``spacy download en_core_web_sm``).
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

from adk_graph_memory.extraction.sentences import ABBREVIATION
from adk_graph_memory.language.date_finder import load_calendar_words
from adk_graph_memory.language.detection import WIDE_RANGES, WORD_PATTERN, load_stop_words


class ExtractedName(NamedTuple):
    """A name as it is written, and its entity type, if known."""

    text: str
    type: str = "name"
    is_sentence_start: bool = False
    """Whether it begins its sentence, where any first word has a capital."""


class NameFinder(Protocol):
    """Finds names in a sentence; ``version`` identifies its models or rules."""

    version: str

    def find_names(self, sentence: str, language: str) -> Iterable[ExtractedName]:
        """Find the names in a sentence of this language."""


_NAME_TOKEN = re.compile(rf"(?<!\w)[^\W\d_{WIDE_RANGES}]\.(?=\s?[^\W\d_{WIDE_RANGES}])|{WORD_PATTERN.pattern}")
_NAME_PARTICLES = re.compile("van|von|der|den|del?|della|di|da|dos|la|le|bin|ibn|al|of|y|e")
_MID_SENTENCE = re.compile(r"[^\W\d_][^:*•–—]*$")
_NAME_JOINER = re.compile(r" | & |\s?(?=\.)|(?<=\.)\s?")
_TITLED_NAME = re.compile(
    r"(?<![お御\u4e00-\u9fff\u30a0-\u30ff])([\u4e00-\u9fff]{2,5}|[\u30a0-\u30ff]{2,})(?=さん|さま|様|くん|ちゃん)"
    r"|(?<![가-힣])([가-힣]{2,4})(?=\s씨)|([\u30a1-\u30fa\u30fc]+(?:[・＝][\u30a1-\u30fa\u30fc]+)+)"
)
_FOREIGN = re.compile(
    rf"(?<![{WIDE_RANGES}])[{WIDE_RANGES}]{{2,8}}(?![{WIDE_RANGES}])"
    r"|(?<!\w)[\u0590-\u074f]{2,}(?: [\u0590-\u074f]{2,})?(?!\w)"
)
_GERMAN_NOUN_PREFIX = re.compile(r"\b(?:[ai]m|[ai]ns|vom|zu[mr]|beim|das|\w*(?:e|en|er|es|em|ein))\s+$", re.IGNORECASE)
_GERMAN_NOUN = re.compile(r"\w+(?:ung|heit|keit|schaft|tion|tät|nis|zeit|tag|jahr)e?[ns]?$")
"""German capitalises every noun: after an article or adjective, or with such an ending, it is no name."""
_MAX_NAME_WORDS, _NAME_CONTEXT_LENGTH = 7, 60
"""Words of the longest name (more are a title or shouting), and characters before a name that are checked."""

_CAPITALISED_WORD = rf"(?-i:[^\W\d_a-z{WIDE_RANGES}])[^\W\d_]+"
_SELF_INTRODUCTION = re.compile(
    r"\W*(?:\w+(?: \w+)?[,!]\s+)?(?:my (?:full )?name['’]?(?: i)?s|I(?:['’]m| am) called|me llamo|mi nombre es"
    r"|ich hei(?:ß|ss)e|mein name ist|je m['’]appelle|mi chiamo|me chamo|ik heet|με λένε|меня зовут)\s+"
    rf"({_CAPITALISED_WORD}(?:[ \-](?:(?:van|von|de|der|la|bin|al) )*{_CAPITALISED_WORD}){{0,3}})"
    r"(?=\s*(?:[.,;:!()]|$|\b(?:and|but|und|aber|y|pero|и|а|et)\b))"
    r"|(?:.{0,6}[、。！，,!\s])?(?:私|僕|俺|わたし)の名前は([^\s、。，！!?？はがをに]{1,12}?)(?:です|だ|といいます|と申します)"
    r"|(?:.{0,6}[。！，,!\s])?(?:我叫|我的名字(?:是|叫))([\u4e00-\u9fff]{2,4})(?=[，。！,.!\s]|$)",
    re.IGNORECASE,
)
_NICKNAME = re.compile(
    rf",?\s*(?:and|but|und|aber) (?:every(?:one|body) calls me|alle nennen mich) ({_CAPITALISED_WORD})(?=[.,;!]|$)",
    re.IGNORECASE,
)


def find_own_names(sentence: str) -> list[str]:
    """The speaker's own name and nickname, if the sentence begins by giving them ("My name is …")."""
    introduction = _SELF_INTRODUCTION.match(sentence)
    nickname = _NICKNAME.match(sentence, introduction.end()) if introduction else None
    names = [str(match[match.lastindex or 0]) for match in (introduction, nickname) if match]
    return [name for name in names if not name[:1].islower()]


class PatternNameFinder:
    """Finds names by capitals or, in scripts without capitals, by titles, particles and a change of script."""

    version = "written"

    def find_names(self, sentence: str, language: str) -> Iterator[ExtractedName]:
        """Find the names in a sentence of this language."""
        yield from (ExtractedName(next(filter(None, match.groups()))) for match in _TITLED_NAME.finditer(sentence))
        if language not in ("ja", "zh", "ko", "th", "ar", "fa", "he"):
            yield from map(ExtractedName, _FOREIGN.findall(sentence))
        for run in _find_capitalised_words(sentence, language):
            if 0 < len(run) <= _MAX_NAME_WORDS:
                yield from _extract_name(sentence, run, language)


def _find_capitalised_words(sentence: str, language: str) -> Iterator[list[re.Match[str]]]:
    """Runs of capitalised words, with particles such as "van" between them."""
    run: list[re.Match[str]] = []
    for match in _NAME_TOKEN.finditer(sentence):
        is_title = ABBREVIATION.fullmatch(match[0]) and sentence.startswith(".", match.end())
        is_capital = _is_capitalised(match[0], language) and not is_title
        is_joined = run and _NAME_JOINER.fullmatch(sentence, run[-1].end(), match.start())
        if run and not (is_joined and (is_capital or _NAME_PARTICLES.fullmatch(match[0]))):
            yield run
            run = []
        if is_capital or run:
            run.append(match)
    yield run


def _is_capitalised(word: str, language: str) -> bool:
    if len(word) == 1 or word[:2] in ("I'", "I’") or word.casefold() in load_calendar_words(language):
        return False
    return word[0].isupper() and not (word.isupper() and len(word) > 5)


def _extract_name(sentence: str, run: list[re.Match[str]], language: str) -> Iterator[ExtractedName]:
    """The name in a run of capitalised words, without ordinary words at its ends."""
    before = _get_context(sentence, run)
    is_start = not _MID_SENTENCE.search(before)
    while run and _NAME_PARTICLES.fullmatch(run[-1][0]):
        run.pop()
    while run and run[0][0].casefold() in load_stop_words(language) and (is_start or len(run) == 1):
        run, is_start = run[1:], False
    before = _get_context(sentence, run)
    if language == "de" and run and (_GERMAN_NOUN_PREFIX.search(before) or _GERMAN_NOUN.fullmatch(run[0][0])):
        run, is_start = run[1:], False
    while run and _NAME_PARTICLES.fullmatch(run[0][0]):
        run = run[1:]
    if run and not (len(run) == 1 and (is_start or run[0][0].endswith("."))):
        yield ExtractedName(sentence[run[0].start() : run[-1].end()], is_sentence_start=is_start)


def _get_context(sentence: str, run: Sequence[re.Match[str]]) -> str:
    """The characters before a run of words."""
    return sentence[max(0, run[0].start() - _NAME_CONTEXT_LENGTH) : run[0].start()] if run else ""


_SPACY_ENTITY_TYPES = {"PERSON": "person", "PER": "person", "ORG": "organization", "EVENT": "event", "MISC": "name"}
_SPACY_ENTITY_TYPES |= dict.fromkeys(("GPE", "LOC", "FAC"), "place")
_SPACY_ENTITY_TYPES |= dict.fromkeys(("PRODUCT", "WORK_OF_ART"), "object")
_SPACY_LOCK = threading.Lock()


@cache
def load_name_finder() -> NameFinder:
    """The best name finder here: spaCy if it is installed, else patterns."""
    if importlib.util.find_spec("spacy") is None:
        return PatternNameFinder()
    from spacy.util import get_installed_models

    return SpacyNameFinder(get_installed_models())


class SpacyNameFinder:
    """Finds names with the spaCy model of the language (the large one of several), else by patterns."""

    def __init__(self, models: Sequence[str]) -> None:
        self._models = {model.partition("_")[0]: model for model in sorted(models, reverse=True)}
        self._fallback = PatternNameFinder()
        self.version = " ".join(sorted(self._models.values())) or self._fallback.version

    def find_names(self, sentence: str, language: str) -> Iterator[ExtractedName]:
        """Find the names in a sentence of this language."""
        if language not in self._models:
            yield from self._fallback.find_names(sentence, language)
            return
        with _SPACY_LOCK:
            doc = _load_spacy_model(self._models[language])(sentence)
        for entity in doc.ents:
            tokens = [token for token in entity if token.pos_ not in ("DET", "PART", "PUNCT")]
            if entity.label_ in _SPACY_ENTITY_TYPES and any(token.pos_ == "PROPN" for token in tokens):
                yield ExtractedName(doc[tokens[0].i : tokens[-1].i + 1].text, _SPACY_ENTITY_TYPES[entity.label_])


@cache
def _load_spacy_model(model: str) -> Any:
    import spacy

    return spacy.load(model)
