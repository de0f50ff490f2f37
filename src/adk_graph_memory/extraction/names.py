"""Split a text into its author's sentences, and find the names in them.

Code, markup, lines that a program wrote, lines that begin with “>” or, as in a transcript, with a speaker in capitals,
text in quotation marks, pasted mails, and the paragraph after a colon and an empty line are not the author's own.

If you want spaCy, install it and its models (``pip install spacy``, ``spacy download en_core_web_sm``).
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise, takewhile
from typing import Any, NamedTuple, Protocol

from adk_graph_memory.extraction.pasted_lines import find_frames, find_pasted_lines
from adk_graph_memory.language.date_finder import load_calendar_words
from adk_graph_memory.language.detection import WIDE_CHARACTER, WIDE_RANGES, WORD_PATTERN, load_stop_words

_QUOTED_MATERIAL = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*+~~~.*?(?:^[ \t]*+~~~|\Z)|^[ \t]*+>[^\n]*+"
    r"|<!--.*?(?:-->|\Z)|^[ \t]*+</?[a-zA-Z][^\n]*+"
    r"|(?<=[:：])[ \t]*+\r?\n[ \t]*+\r?\n(?:[ \t]*+\S[^\n]*+(?:\n|\Z))++"
    r"|(?P<inside>`[^`\n]++`|„[^„“”]*+[“”]|“[^“”]*+”|«[^«»]*+»|»[^«»]*+«|「[^「」]*+」|『[^『』]*+』"
    r"|(?<!\w)\"[^\"\n]++\"(?!\w))",
    re.DOTALL | re.MULTILINE,
)
_TRANSCRIPT_LINE = re.compile(
    r"^[ \t]*+(?!(?:NOTE|NB|PS|PPS|UPDATE|EDIT|FYI|TLDR|IMPORTANT|ALLERG\w+|NOTA|HINWEIS|WICHTIG|IMPORTANTE?):)"
    r"(?:[A-Z][A-Z0-9]+(?:[ _-][A-Z0-9]+)*+|[Ss]ystem|[Uu]ser|[Aa]ssistant|[Hh]uman):[ \t][^\n]*+",
    re.MULTILINE,
)
"""A line of a speaker's; what opens a note of one's own is no speaker."""
_MAIL_SENDER = re.compile(
    r"\s*(?:From|Von|Van|De|Da|Fra|Från|От|发件人|寄件者|差出人|보낸 사람)\s*[:：]", re.IGNORECASE
)
_MAIL_HEADER = re.compile(
    r"\s*(?:From|To|Cc|Bcc|Date|Sent|Subject|Von|An|Datum|Gesendet|Betreff|De|Para|Fecha|Asunto|À|Envoyé|Objet"
    r"|От|Кому|Дата|Тема|发件人|收件人|日期|主题|差出人|宛先|件名)\s*[:：]",
    re.IGNORECASE,
)
_FIELD, _MAX_FIELDS = re.compile(r"\s*[^\W\d_][^:：\n]{0,30}[:：]"), 50
_MAIL_MARK = re.compile(
    r"@|\d:\d\d|^\s*(?:Cc|Bcc|Sent|Subject|Gesendet|Betreff|Asunto|Envoyé|Objet|Тема|主题|件名)\s*[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_MAIL_SEPARATOR = re.compile(r"\s*-{4,}\s*\w[^-]*-{4,}|(?=[^<]*+<[^<>\s@]+@[^<>\s@]+>).*[:：]\s*$")
_MAIL_ATTRIBUTION = re.compile(r"(?=.*?\b(?:19|20)\d\d\b)(?=.*?\d:\d\d).*[:：]\s*$")

_LINE = re.compile(r"[^\r\n\v\f\u2028\u2029]+")
_SENTENCE_END = re.compile(
    r"[。！？]+[」』”）)]*"
    r"|(?<![.!?…؟⁇⁈])[.!?…؟⁇⁈]++[\"'”’»）)*_]*+(?=\s+\S)"
    r"|(?<![!?؟])[!?؟]++(?=[^\s\w.,;:)\"'”’»\]}/&=])"
)
_NONBLANK_TEXT = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_LAST_WORD = re.compile(r"(?:[^\W\d_]+|\d+)$")
ABBREVIATION = re.compile(
    r"mr|mrs|ms|mx|dr|prof|st|sr|jr|sra|srta|mme|fr|hr|rev|hon|gen|col|sgt|vs|eg|ie|etc|approx|dept|est|fig|no|nr|bzw|ca"
    r"|evtl|ggf|inkl|usw|vgl|str|tel|г|ул|д|стр|кв|обл|им|inc|ltd|co|corp|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec",
    re.IGNORECASE,
)
_ORDINAL_LANGUAGES = frozenset(("de", "da", "nb", "fi", "cs", "hu", "pl"))
"""Languages that write "the 3rd of March" as "3. March"."""
_DEPENDENT_SENTENCE = re.compile(
    r"(?:It|They|He|She)\b|(?:That|This|These|Those)(?:['’]s|\s+(?:is|was|are|were|isn['’]t|wasn['’]t|has|had|will)\b)"
    r"|\W*(?:\+?\d[\d\s().\-/]{4,}\d|[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+|https?://\S+)\W*$"
)
_MAX_GROUP_LENGTH, _MAX_SENTENCE_GAP = 320, 3
"""Characters of joined sentences, and between them; a wider gap stands for masked text."""
_OPENING = r"\W*(?:(?:hey|hi|hello|ok|okay|so|and|now|then|bitte|por favor|s['’]il (?:te|vous) pla[iî]t)\b,?\s+)*"
_FOR_ME = (
    r"(?:book|order|reserve|find|get|give|show|tell|send|bring|make|draw|write|draft|read|teach|remind|help|wake|fetch"
    r"|schedule|recommend|suggest|explain|list|name) (?:me|us)\b"
    r"|(?:buch|bestell|reservier|such|find|gib|zeig|sag|schreib|erklär|übersetz|erinner|empfiehl|mach|besorg|hilf)e?"
    r" (?:mir|uns|mich)\b"
    r"|(?:reserva|busca|encuentra|escribe|explica|recuérda|da|muéstra|di|traduce|recomiénda)(?:me|nos)\b"
    r"|(?:réserve|trouve|écris|explique|rappelle|donne|montre|dis|traduis|conseille)[sz]?[ -](?:moi|nous)\b"
)
_TASK = (
    r"(?:summari[sz]e|translate|proofread|rephrase|rewrite|paraphrase|refactor|debug|calculate|compute|convert|explain"
    r"|generate|compose|draft|write|classify|outline|transcribe|search|find|look up|compare|list|describe|analy[sz]e"
    r"|implement|set|turn o(?:n|ff)|switch o(?:n|ff)|book|reserve|order|schedule|recommend|suggest) "
    r"(?:a|an|the|this|that|these|those|my|our|some|all|(?<!find )it|them|how|why|what|which|two|three|\d+)\b"
)
_REQUEST = re.compile(rf"{_OPENING}(?:(?:please|pls|plz|(?:can|could) you) )*(?:{_FOR_ME}|{_TASK})", re.IGNORECASE)
_OWN_CLAUSE = re.compile(
    r"(?<!what )(?<!how )(?<!where )(?<!when )(?<!which )(?<!if )\b(?:i|we)(?:['’](?:m|ve|d|ll|re))?\s+\w"
    r"|\bmy (?:[\w'’-]+ ){1,3}(?:is|are|was|has|have|likes?|lives?|needs?|can['’]t)\b"
    r"|\b(?:ich|wir|yo|je) \w|\b(?:soy|tengo)\b",
    re.IGNORECASE,
)
_ASSERTION = (
    r"(?:\w+[,!]\s+)?(?:(?:I|We)(?:['’](?:m|ve|re))?|My(?: [\w'’-]+){1,3}? (?:is|are|has|have|was)|Ich|Wir|Je)\s"
    r"(?!(?:wonder|was wondering|want to know|need to know|guess|think|should|could|can|may|shall|would|will|must)\b)"
    r"[^?;]{4,}?"
)
_QUESTION = (
    r"(?:any|what|how|where|when|which|who|why|do|does|did|can|could|would|will|should|is|are|has|have|got|anyone"
    r"|hast|habt|was|wie|wo|wann|welche\w*|wer|warum|kannst|könnt|gibt|as-tu|avez-vous|quel\w*|comment|où|des)"
    r"['’\w]*\s[^?]+\?"
)
_LEADING_ASSERTION = re.compile(
    rf"(?P<assertion>{_ASSERTION})(?:[,;:]| [–—-])\s+(?:(?:and|so|but|und|et)\s+)?(?P<question>{_QUESTION})",
    re.IGNORECASE,
)
_TAG_QUESTION = re.compile(r"[\w'’]+ (?:I|we|you|he|she|it|they)(?: not)?\s*\?", re.IGNORECASE)
_MORE = re.compile(r"[,;:–—] ?[^\W\d_]|\bthat\b", re.IGNORECASE)
"""After it comes what somebody states beside their request."""
_MIN_ASSERTION_WORDS, _MAX_QUESTION_LENGTH = 3, 500
"""Words of an assertion before “¿”, and characters of a question that may begin with an assertion."""


def mask_quoted_text(text: str) -> str:
    """Replace all but the author's own words by blanks, or by “_” inside a sentence; the length stays."""
    masked = _blank_spans(text, sorted((*find_frames(text), *find_pasted_lines(text))))
    masked = _QUOTED_MATERIAL.sub(lambda match: ("_" if match["inside"] else " ") * len(match[0]), masked)
    if len(_TRANSCRIPT_LINE.findall(masked)) > 1:  # one may be a note of the author's: "UPDATE: …"
        masked = _TRANSCRIPT_LINE.sub(lambda match: " " * len(match[0]), masked)
    end = _find_mail(masked)
    return masked[:end] + " " * (len(masked) - end)


def count_shown_lines(text: str, own_text: str) -> int:
    """Count the lines of a text that hold nothing of its author's own."""
    lines = (line.span() for line in _LINE.finditer(text))
    return sum(own_text[start:end].isspace() and not text[start:end].isspace() for start, end in lines)


def _blank_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Replace by blanks what stands in these spans, which may overlap; line breaks stay."""
    parts, last = list[str](), 0
    for start, end in spans:
        parts += [text[last:start], re.sub(r"[^\r\n]", " ", text[max(start, last) : end])]
        last = max(last, end)
    return "".join([*parts, text[last:]])


def _find_mail(text: str) -> int:
    """Where a pasted mail begins; the end of the text if there is none."""
    lines, start, form_end = [*text.splitlines(keepends=True), ""], 0, 0
    for place, (line, next_line) in enumerate(pairwise(lines)):
        is_header = _MAIL_SENDER.match(line) or (_MAIL_HEADER.match(line) and _MAIL_HEADER.match(next_line))
        if is_header and place >= form_end:
            # A form, such as a journey from one place to another, is no mail, unless its fields head one.
            fields = list(takewhile(_FIELD.match, lines[place : place + _MAX_FIELDS]))
            is_form = len(fields) > 1 and not _MAIL_MARK.search("".join(fields))
            form_end = place + len(fields) if is_form else place
        if (is_header and place >= form_end) or _MAIL_SEPARATOR.match(line) or _MAIL_ATTRIBUTION.match(line):
            break
        start += len(line)
    return start


def split_sentences(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence; a period after an initial or abbreviation or before a small letter ends none.

    An assertion that leads to a question is a sentence of its own.
    """
    for line in _LINE.finditer(text):
        ends = [
            line.start() + match.end()
            for match in _SENTENCE_END.finditer(line[0])
            if _is_sentence_end(line[0], match, language)
        ]
        for start, end in pairwise([line.start(), *ends, line.end()]):
            sentence = _NONBLANK_TEXT.search(text, start, end)
            if sentence and is_question(sentence[0]) and (parts := find_leading_assertion(sentence[0])):
                # Split off the assertion that a question begins with: "I moved to Porto, any tips?".
                yield sentence.start(), sentence.start() + parts[0]
                yield sentence.start() + parts[1], sentence.end()
            elif sentence:
                yield sentence.span()


def group_sentences(text: str, language: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, joined with the next if that begins with "It is …" or is only a number."""
    groups: list[tuple[int, int]] = []
    for start, end in split_sentences(text, language):
        group_start, group_end = groups[-1] if groups else (0, -_MAX_GROUP_LENGTH)
        group, sentence = text[group_start:group_end], text[start:end]
        is_near = start - group_end <= _MAX_SENTENCE_GAP and end - group_start <= _MAX_GROUP_LENGTH
        has_question = is_question(group) or is_question(sentence)
        if is_near and len(group.split()) > 2 and not has_question and _DEPENDENT_SENTENCE.match(sentence):
            groups[-1] = group_start, end
        else:
            groups.append((start, end))
    return groups


def is_question(sentence: str) -> bool:
    """Whether the sentence ends with a question mark of any script, ignoring closing quotes."""
    return re.search(r"[?？؟⁇⁈][!\s\"'”’»）)\]」』*_]*$", sentence) is not None


def _is_sentence_end(line: str, match: re.Match[str], language: str) -> bool:
    following = line[match.end() : match.end() + 40].lstrip()
    if match[0][0] not in ".…":
        return match[0][0] in "。！？" or not following[:1].islower()
    word = _LAST_WORD.search(line, max(0, match.start() - 30), match.start())
    if match[0] != "." or word is None or following[:1].islower():
        return not following[:1].islower()
    if word[0].isdigit():
        return not (language in _ORDINAL_LANGUAGES and len(word[0]) <= 2) and (word.start() > 0 or len(word[0]) > 2)
    if len(word[0]) == 1 and not WIDE_CHARACTER.match(word[0]):
        return word[0] == "I" and language == "en"
    is_short = ABBREVIATION.fullmatch(word[0]) or (language == "de" and word[0].endswith("str"))
    return not is_short or (word[0].casefold() == "no" and not following[:1].isdigit())


def is_request(sentence: str) -> bool:
    """Whether the sentence only asks for something to be done, and states nothing beside it."""
    request = _REQUEST.match(sentence)
    return request is not None and not (_OWN_CLAUSE.search(sentence) or _MORE.search(sentence, request.end()))


def find_leading_assertion(question: str) -> tuple[int, int] | None:
    """Where the assertion ends by which somebody leads to their question, and where the question itself begins."""
    if len(question) > _MAX_QUESTION_LENGTH:
        return None
    if match := _LEADING_ASSERTION.match(question):
        return None if _TAG_QUESTION.match(match["question"]) else (match.end("assertion"), match.start("question"))
    start = question.find("¿")  # Spanish says where it begins
    assertion = question[: max(start, 0)].rstrip(" \t,;:–—-")
    return (len(assertion), start) if len(assertion.split()) >= _MIN_ASSERTION_WORDS else None


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
