"""Parse a question: what it asks, about whom and which time, and the queries to search memory with.

In a single query, a message's ordinary words outweigh the one rare name in it: almost any memory shares some of them.
All its queries together have no more words than a question may have, so a message costs no more than a question.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property, lru_cache
from typing import NamedTuple

from adk_graph_memory.graph import lucene
from adk_graph_memory.language import date_finder
from adk_graph_memory.language.dates import Precision
from adk_graph_memory.language.detection import WIDE_RUN, detect_language, load_stop_words
from adk_graph_memory.language.quantities import Identifiers, find_identifiers
from adk_graph_memory.language.text import has_wide_character
from adk_graph_memory.retrieval.candidates import SearchCandidate


@dataclass(frozen=True, slots=True)
class DateRange:
    """A day, week, month or year that a text names, with its words; a date without a year recurs yearly."""

    start: datetime
    end: datetime
    is_yearly: bool = False
    words: str = field(default="", compare=False)

    def contains(self, moment: datetime) -> bool:
        """Whether the moment lies in the range, or in that of its year."""
        return (self.measure_time_since(moment) or timedelta()) < timedelta()

    def measure_time_since(self, moment: datetime) -> timedelta | None:
        """The time from the end of the range to the moment: negative inside the range, None before it."""
        start, moment = self.start, moment.astimezone(self.start.tzinfo)
        if self.is_yearly:
            this_year = _replace_year(start, moment.year)
            start = this_year if this_year <= moment else _replace_year(start, moment.year - 1)
        return moment - start - (self.end - self.start) if start <= moment else None


@lru_cache(maxsize=256)
def _find_date_ranges(text: str, base: datetime, zone: tzinfo | None, language: str) -> tuple[DateRange, ...]:
    """The date ranges that a text in one language names, relative to ``base``, a time in the zone."""
    if len(text) > date_finder.MAX_SENTENCE_LENGTH or not date_finder.has_date_hint(text, language):
        return ()
    with date_finder.DATEPARSER_LOCK:
        ranges = list(_iterate_date_ranges(text, base, zone, language))
    years = [span for span in ranges if span.end - span.start >= timedelta(days=365)]
    shorter = [span for span in ranges if span.end - span.start < timedelta(days=365)]
    if len(years) == 1:  # "11 August" and "2023" may stand apart
        [year] = years
        for place, span in enumerate(shorter):
            start = _replace_year(span.start, year.start.year) if span.is_yearly else span.start
            shorter[place] = DateRange(start, start + (span.end - span.start), words=f"{span.words} {year.words}")
    return tuple(shorter or ranges)


def _iterate_date_ranges(text: str, base: datetime, zone: tzinfo | None, language: str) -> Iterator[DateRange]:
    for start, end in date_finder.locate_dates(text, base, language):
        words = text[start:end]
        past, future = date_finder.parse_past_and_future(words, base, language)
        has_name = date_finder.has_calendar_word(words, language) or date_finder.YEAR_PATTERN.search(words) is not None
        if past is None or (past != future and not has_name) or not 1900 <= past.year <= 2200:
            continue
        first = past.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=zone)
        span = _compute_date_range(first, date_finder.detect_date_unit(words, base, language), is_yearly=past != future)
        yield replace(span, words=words)


def _compute_date_range(day: datetime, period: str, *, is_yearly: bool) -> DateRange:
    if period == "week":
        monday = day - timedelta(days=day.weekday())
        return DateRange(monday, monday + timedelta(days=7))
    if period == "month":
        first = day.replace(day=1)
        return DateRange(first, (first + timedelta(days=32)).replace(day=1), is_yearly)
    if period == "year":
        first = day.replace(month=1, day=1)
        return DateRange(first, first.replace(year=day.year + 1))
    return DateRange(day, day + timedelta(days=1), is_yearly)


def _replace_year(moment: datetime, year: int) -> datetime:
    is_leap_day = (moment.month, moment.day) == (2, 29)
    return moment.replace(year=year, day=28) if is_leap_day else moment.replace(year=year)


MAX_QUESTION_WORDS = 128
"""A text with more words is a message; a sentence embedder reads no more of it either."""
_MIN_CONTENT_WORDS = 6
"""Words, not counting stop words, that the sentences taken from an end have at least: more than a greeting."""
_MAX_SENTENCE_CHARACTERS = 1_000
"""Characters used of a sentence at an end: those nearest to that end."""
_END_SENTENCE_WORDS = 16
"""Words searched for of such a sentence: enough for a question, not for a list."""
_END_BOOST = 2.0
"""The boost of such words."""
IDENTIFIER_BOOST = 64.0
"""The boost of a number or a code: more than the groups of its digits together, which others have too, though a word is
the less rare for Lucene the fewer memories have any in that property."""
_MAX_PLAIN_WORDS = 32
"""Words from the middle that are not names: the longest, which are usually rare."""
_WORDS_PER_PART = 8
"""Words from the middle that are searched for together."""
_SENTENCE = re.compile(r"(?:[^.!?。！？؟…\n]|[.!?…](?=\S))+[.!?。！？؟…]*")
_WORD = re.compile(r"\w+")


class QueryPart(NamedTuple):
    """Words that are searched for together, their boost, and whether any of them may be a name."""

    terms: list[str]
    boost: float = 1.0
    has_names: bool = True


def extract_last_sentences(text: str, language: str) -> str:
    """Return the last sentences of a message, where most people say what they want; a question unchanged."""
    if not is_message(text):
        return text
    sentences = _take_content_sentences(
        [sentence[-_MAX_SENTENCE_CHARACTERS:] for sentence in _SENTENCE.findall(text)[::-1]], language
    )
    return " ".join(map(str.strip, sentences[::-1]))


def is_message(text: str) -> bool:
    """Whether a text has more words than a question; in scripts without spaces, pairs of characters count as words."""
    if len(text) <= MAX_QUESTION_WORDS:
        return False
    words, pairs = _collect_words(text)
    return len(words) + len(pairs) > MAX_QUESTION_WORDS


def split_query_parts(text: str, language: str) -> list[QueryPart]:
    """Split a text into query parts: a question is one; a message gives its ends and the rarest words between them."""
    if not is_message(text):
        return [QueryPart(lucene.extract_terms(text, language))]
    sentences = _SENTENCE.findall(text)
    first = _take_content_sentences([sentence[:_MAX_SENTENCE_CHARACTERS] for sentence in sentences], language)
    last = _take_content_sentences([sentence[-_MAX_SENTENCE_CHARACTERS:] for sentence in sentences[::-1]], language)
    ends = [_select_content_words(sentence, language)[:_END_SENTENCE_WORDS] for sentence in first]
    ends += [_select_content_words(sentence, language)[-_END_SENTENCE_WORDS:] for sentence in last]
    end_terms = [term.casefold() for terms in ends for term in terms]
    names, plain_words = _select_middle_words(text, set(end_terms), MAX_QUESTION_WORDS - len(end_terms), language)
    parts = [*(QueryPart(terms, _END_BOOST) for terms in ends), *map(QueryPart, _group_terms(names))]
    parts += [QueryPart(terms, has_names=False) for terms in _group_terms(plain_words)]
    return [part for part in parts if part.terms] or [
        QueryPart(lucene.extract_terms(text, language)[:MAX_QUESTION_WORDS])
    ]


def format_part_queries(parts: Iterable[QueryPart], scope: str, fields: Sequence[str]) -> list[str]:
    """Format the Lucene queries that search any of the fields for the parts."""
    return [query for part in parts for query in lucene.format_lucene_queries(scope, part.terms, fields, part.boost)]


def _select_middle_words(text: str, end_terms: set[str], limit: int, language: str) -> tuple[list[str], list[str]]:
    """Select at most ``limit`` words that the ends lack: names, numbers and evenly spaced pairs; and the longest."""
    words, pairs = _collect_words(text)
    excluded_words = end_terms | load_stop_words(language)
    candidates = [word for folded, word in words.items() if folded not in excluded_words]
    plain_words = sorted(filter(_is_plain, candidates), key=len, reverse=True)[:_MAX_PLAIN_WORDS]
    names = [word for word in candidates if not _is_plain(word)][: limit - len(plain_words)]
    pairs, room = [pair for pair in pairs if pair not in end_terms], limit - len(plain_words) - len(names)
    names += [pairs[i * len(pairs) // room] for i in range(room)] if len(pairs) > room else pairs
    name_terms, plain_terms = _split_terms(names, language), _split_terms(plain_words, language)
    return name_terms[: limit - len(plain_words)], plain_terms[:_MAX_PLAIN_WORDS]


def _is_plain(word: str) -> bool:
    """Whether a word looks like neither a name nor a number."""
    return word.islower() and word.isalpha()


def _split_terms(words: Iterable[str], language: str) -> list[str]:
    return [term for word in words for term in lucene.extract_terms(word, language)]


def _group_terms(terms: list[str]) -> list[list[str]]:
    return [terms[start : start + _WORDS_PER_PART] for start in range(0, len(terms), _WORDS_PER_PART)]


def _collect_words(text: str) -> tuple[dict[str, str], list[str]]:
    """Return a text's distinct words by casefolded form and, for scripts without spaces, its pairs of characters."""
    words = {word.casefold(): word for word in _WORD.findall(WIDE_RUN.sub(" ", text))}
    return words, list(dict.fromkeys(lucene.split_bigrams(text)))


def _take_content_sentences(sentences: Iterable[str], language: str) -> list[str]:
    """Take the first sentences until together they have enough content words."""
    first_sentences, words = list[str](), set[str]()
    for sentence in sentences:
        first_sentences.append(sentence)
        words.update(_select_content_words(sentence, language))
        if len(words) >= _MIN_CONTENT_WORDS:
            break
    return first_sentences


def _select_content_words(text: str, language: str) -> list[str]:
    """Return the words to search for, without stop words."""
    return [term for term in lucene.extract_terms(text, language) if term.casefold() not in load_stop_words(language)]


REPORTING_DELAY = timedelta(days=7)
"""How long after an event people still tell of it."""

_HALF_PERIODS: dict[Precision, timedelta] = {
    "year": timedelta(days=182),
    "month": timedelta(days=15),
    "day": timedelta(hours=12),
    "time": timedelta(),
    "about": timedelta(hours=12),
}
"""Half of the time that a date of each precision names."""
EARLIEST_TIMESTAMP, LATEST_TIMESTAMP = (
    datetime(1900, 1, 1, tzinfo=UTC).timestamp(),
    datetime(2200, 1, 1, tzinfo=UTC).timestamp(),
)
"""The range of dates that people speak of, in seconds since 1970."""

_PAST_WORDS = re.compile(
    r"\b(?:used to|previous(?:ly)?|former(?:ly)?|originally|back then|in the past|(?<!how )(?<!years )(?<![-’'])old"
    r"|antes|anterior(?:mente)?|solía|früher\w*|vorher|damals|avant|ancien\w*|autrefois|prima|раньше|прежн\w*|бывш\w*"
    r"|vroeger|eerder|voorheen|wcześniej|dawniej|dříve|předtím|tidigare|förut|tidligere|aiemmin|korábban|înainte|eskiden"
    r"|önceden|раніше|колишн\w*|πριν|παλιά|לפני כן|בעבר"
    r"|سابق(?:ا|اً)?|قديم(?:ا|اً)|الماضي|من قبل|قبل ذلك|كنت|كان|كانت|كنا|قبلا|سابقًا)\b"
    r"|पहले|以前|之前|从前|最初|昔|かつて|예전|전에|처음",
    re.IGNORECASE,
)
_EARLIER_WORDS = re.compile(r"\b(?:before|until|earlier|first)\b", re.IGNORECASE)
"""Words that mean the past only beside a past verb."""
_PAST_VERBS = re.compile(r"\b(?:did|was|were|had|ago)\b", re.IGNORECASE)
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_AGENT_ADDRESS = {
    "en": re.compile(r"\b(?:your?|recommended|suggested)\b", re.IGNORECASE),
    "es": re.compile(r"\b(?:tú|usted|te)\b", re.IGNORECASE),
    "de": re.compile(r"\b(?:du|dir|dich)\b|\bSie\b"),
    "fr": re.compile(r"\b(?:vous|tu|te)\b", re.IGNORECASE),
    "it": re.compile(r"\b(?:tu|ti)\b", re.IGNORECASE),
    "ru": re.compile(r"\b(?:ты|вы)\b", re.IGNORECASE),
    "zh": re.compile(r"你|您"),
    "ja": re.compile(r"あなた"),
    "ko": re.compile(r"당신"),
}
"""Words that address the agent itself, by language."""
_FIRST_PERSON = re.compile(r"\b(?:I|me|my|mine|myself|we|us|our|ours)\b", re.IGNORECASE)
_THIRD_PARTY = re.compile(r"(?<=[\w,;:] )(?!I\b)[A-Z]\w+")
_POLITE_REQUEST = re.compile(
    r"\b(?:do|can|could|would|will) you (?:please )?(?:remember|know|recall|tell|say|remind)\b", re.IGNORECASE
)
_PLURAL_QUESTION = re.compile(
    r"\b(?:what|which|whose)(?: \w+){0,2} \w+[^su\W]s (?:of \w+ )?(?:do|does|has|have|are|can|could|would|might)\b"
    r"|\b(?:what|who) are\b|\b(?:kinds?|types?|sorts?|some) of\b",
    re.IGNORECASE,
)
"""A question for a list, which has no latest answer."""
_EVER_QUESTION = re.compile(r"^(?!.*\b(?:do|does)\b).*\b(?:has|have)\b", re.IGNORECASE | re.DOTALL)
"""A question for what has ever happened."""
_OWN_BELONGINGS = re.compile(r"\b(?:my|our)((?:\s+\w+){1,3})", re.IGNORECASE)
_OTHERS_BELONGINGS = re.compile(
    r"(?:\b(?!(?:it|that|this|what|there|here|where|how|who|he|she|let)['’])\w+['’]s|\b(?:his|her|their))"
    r"((?:\s+\w+){1,3})",
    re.IGNORECASE,
)
"""The speaker's own belongings and relatives, and somebody else's."""


@dataclass(frozen=True)
class ParsedQuestion:
    """A question and what it asks.

    A speaker's turns say "I", so a question about a speaker is searched for without the name, and in the first person.

    Attributes:
        search_text: the question without the names of speakers; a long message in full. Everything else is parsed from
            the end of the message.
        first_person_text: the question as the speaker it asks about would put it.
        author: the speaker it asks about; None if it asks about no speaker or about several.
        language: the question's language.
        is_native: whether the user's turns are in this language.
        time_spans: the times that it names.
        is_past: whether it asks about the past.
        is_present: whether it asks what is so now.
        is_about_third_party: whether it names somebody or something, but no speaker and not the one who asks.
        is_to_agent: whether it addresses the agent itself.
        typed_text: the question as it was typed, or the end of a long message; None if these are the same words.
    """

    search_text: str
    first_person_text: str
    author: str | None = None
    language: str = "en"
    is_native: bool = True
    time_spans: tuple[DateRange, ...] = ()
    is_past: bool = False
    is_present: bool = False
    is_about_third_party: bool = False
    is_to_agent: bool = False
    typed_text: str | None = None

    @property
    def stop_word_language(self) -> str:
        """The language whose stop words are ignored; empty if nobody here speaks it ("dog" is a Danish stop word)."""
        return self.language if self.is_native else ""

    @cached_property
    def _word_parts(self) -> list[QueryPart]:
        return split_query_parts(self.search_text, self.stop_word_language)

    @cached_property
    def query_parts(self) -> list[QueryPart]:
        """The words to search for, grouped by query: one for a question, several for a message; one for identifiers."""
        if not self.identifiers:
            return self._word_parts
        terms = list(self.identifiers.list_terms(self.stop_word_language))
        return [*self._word_parts, QueryPart(terms, IDENTIFIER_BOOST)]

    @cached_property
    def identifiers(self) -> Identifiers:
        """The numbers and codes in it that are found in other spellings too; a message has none."""
        return Identifiers() if self.is_message else find_identifiers(self.search_text)

    @property
    def terms(self) -> list[str]:
        """The words to search for."""
        return [term for part in self.query_parts for term in part.terms]

    @property
    def is_message(self) -> bool:
        """Whether it is longer than a question."""
        return len(self._word_parts) > 1

    @cached_property
    def asking_terms(self) -> list[str]:
        """The words of the question itself: for a message, those of its end."""
        terms = lucene.extract_terms(
            extract_last_sentences(self.search_text, self.stop_word_language), self.stop_word_language
        )
        return terms[-MAX_QUESTION_WORDS:]

    def is_about_others(self, text: str) -> bool:
        """Whether a text speaks of somebody else's what the question asks of one's own: "my sister's wedding"."""
        own = _find_own_belongings(self.first_person_text)
        others = _find_belongings(_OTHERS_BELONGINGS, text) if own else own
        return not own.isdisjoint(others) and own.isdisjoint(_find_belongings(_OWN_BELONGINGS, text))

    def score_timestamp(self, timestamp: float) -> float:
        """Score 1 for a time that the question names, 0.5 for the days after, when people tell of it, else 0."""
        if not self.time_spans or not EARLIEST_TIMESTAMP < timestamp < LATEST_TIMESTAMP:
            return 0.0
        moment = datetime.fromtimestamp(timestamp, UTC)
        delays = [
            delay
            for span in self.time_spans
            if (delay := span.measure_time_since(moment)) is not None and delay <= REPORTING_DELAY
        ]
        return 0.0 if not delays else 1.0 if min(delays) < timedelta() else 0.5

    def is_valid_then(self, fact: SearchCandidate) -> bool:
        """Whether a fact began at a time that the question names, or held then until it ended.

        The middle of the day, month or year in which it began counts: another zone's midnight is on another day.
        """
        if fact.valid_from is not None:
            middle = _limit_timestamp(fact.valid_from) + _HALF_PERIODS[fact.valid_from_precision or "day"]
            if any(span.contains(middle) for span in self.time_spans):
                return True
        if fact.valid_to is None:
            return False
        start, end = _limit_timestamp(fact.valid_from or EARLIEST_TIMESTAMP), _limit_timestamp(fact.valid_to)
        # A yearly range is too vague to overlap anything.
        return any(not span.is_yearly and span.start < end and start < span.end for span in self.time_spans)

    def list_date_words(self, candidates: Iterable[SearchCandidate]) -> list[str]:
        """The words of the dates that the question names, if a candidate is of that time; else none."""
        is_known = bool(self.time_spans) and any(
            self.is_valid_then(candidate) if candidate.kind == "fact" else self.score_timestamp(candidate.timestamp) > 0
            for candidate in candidates
        )
        return [span.words for span in self.time_spans] if is_known else []


def _limit_timestamp(timestamp: float) -> datetime:
    return datetime.fromtimestamp(min(LATEST_TIMESTAMP, max(EARLIEST_TIMESTAMP, timestamp)), UTC)


def parse_question(
    question: str, speakers: Sequence[Sequence[str]], now: datetime, languages: Sequence[str] = ("en",)
) -> ParsedQuestion:
    """Parse a question.

    Args:
        question: as it was typed.
        speakers: for each speaker, the author's name and all other names.
        now: the time that "last week" is relative to.
        languages: the languages of the user's turns, the most frequent first.
    """
    language = detect_language(question, *languages)
    stop_words = load_stop_words(language)
    search_text, *_ = _remove_speaker_names(question, speakers, stop_words)
    question = extract_last_sentences(question, language if language in languages else "")
    _, first_person_text, authors = _remove_speaker_names(question, speakers, stop_words)
    if not (is_message(search_text) or lucene.extract_terms(search_text)):
        search_text = first_person_text = question
    hour = now.replace(microsecond=0, second=0, minute=0, tzinfo=None)  # not so exact, for the cache
    time_spans = _find_date_ranges(question, hour, now.tzinfo, language)
    is_past = (
        (_EARLIER_WORDS.search(question) is not None and _PAST_VERBS.search(question) is not None)
        or _PAST_WORDS.search(question) is not None
        or any(not span.is_yearly and span.end <= now for span in time_spans)
        or (language != "en" and any(int(year) < now.year for year in _YEAR.findall(question)))
    )
    has_one_answer = "?" in question and not any(
        pattern.search(question) for pattern in (_PAST_VERBS, _PLURAL_QUESTION, _EVER_QUESTION)
    )
    return ParsedQuestion(
        search_text,
        first_person_text,
        authors[0] if len(authors) == 1 else None,
        language,
        language in languages,
        time_spans,
        is_past=is_past,
        is_present=not is_past and language == "en" and has_one_answer,
        is_about_third_party=not authors
        and language == "en"
        and _THIRD_PARTY.search(question) is not None
        and _FIRST_PERSON.search(question) is None,
        typed_text=question if question != first_person_text else None,
        is_to_agent=language in _AGENT_ADDRESS
        and _AGENT_ADDRESS[language].search(_POLITE_REQUEST.sub("", question)) is not None,
    )


@lru_cache(maxsize=64)
def _find_own_belongings(question: str) -> frozenset[str]:
    """Find what a question calls one's own; empty if it mentions anyone else's. Cached, for each candidate needs it."""
    return frozenset() if _OTHERS_BELONGINGS.search(question) else _find_belongings(_OWN_BELONGINGS, question)


def _find_belongings(owner: re.Pattern[str], text: str) -> frozenset[str]:
    """Find the words after an owner ("my", "her", "Anna's"), without stop words."""
    words = {word for match in owner.finditer(text) for word in match[1].casefold().split()}
    return frozenset(words - load_stop_words("en"))


def _remove_speaker_names(
    question: str, speakers: Sequence[Sequence[str]], stop_words: Container[str]
) -> tuple[str, str, list[str]]:
    """Return the question without speakers' names, the same in the first person, and the authors that it names."""
    patterns = {names[0]: _compile_names_pattern(names, stop_words) for names in speakers}
    authors = [author for author, pattern in patterns.items() if pattern and pattern.search(question)]
    is_english = question.replace("’", "'").isascii()  # or close enough for "I" and "my" to do no harm
    search_text = first_person_text = question
    for author in authors:
        pattern = patterns[author]
        if pattern is not None:
            search_text = pattern.sub(" ", search_text)
            first_person_text = pattern.sub(
                (lambda match: "my" if match["possessive"] else "I") if len(authors) == 1 and is_english else " ",
                first_person_text,
            )
    if not authors:
        return question, question, []
    return " ".join(search_text.split()), " ".join(first_person_text.split()), authors


def _compile_names_pattern(names: Sequence[str], stop_words: Container[str]) -> re.Pattern[str] | None:
    """Compile a pattern for the names as people write them: a first name alone too, an id with a capital letter.

    The author's name comes first. Among the other names and first names, a stop word ("the", "my", "me") is no name.
    """
    author, *others = names
    first_names = [name.split()[0] for name in names if " " in name.strip()]
    names = [author, *(name for name in (*others, *first_names) if name.casefold() not in stop_words)]
    forms = {form for name in names for form in (name, name[:1].upper() + name[1:]) if len(name) > 1}
    if not forms:
        return None
    patterns = [  # of whole words; in scripts without spaces, anywhere
        re.escape(form) if has_wide_character(form) else rf"(?<!\w){re.escape(form)}(?!\w)"
        for form in sorted(forms, key=lambda form: (-len(form), form))
    ]
    return re.compile(rf"(?:{'|'.join(patterns)})(?P<possessive>['’]s\b)?")
