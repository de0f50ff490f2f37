"""Parse a question: what it asks, about whom and which time, and the words to search memory with."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache

from adk_graph_memory.graph import lucene
from adk_graph_memory.language.date_ranges import DateRange, find_date_ranges
from adk_graph_memory.language.detection import detect_language, load_stop_words
from adk_graph_memory.language.identifiers import Identifiers, find_identifiers
from adk_graph_memory.records import Precision, has_wide_character
from adk_graph_memory.retrieval import query_parts
from adk_graph_memory.retrieval.search_candidates import SearchCandidate

REPORTING_DELAY = timedelta(days=7)
"""How long after an event people still tell of it."""

_HALF_PERIODS: dict[Precision, timedelta] = {
    "year": timedelta(days=182),
    "month": timedelta(days=15),
    "day": timedelta(hours=12),
    "time": timedelta(),
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

    @property
    def stop_word_language(self) -> str:
        """The language whose stop words are ignored; empty if nobody here speaks it ("dog" is a Danish stop word)."""
        return self.language if self.is_native else ""

    @cached_property
    def _word_parts(self) -> list[query_parts.QueryPart]:
        return query_parts.split_query_parts(self.search_text, self.stop_word_language)

    @cached_property
    def query_parts(self) -> list[query_parts.QueryPart]:
        """The words to search for, grouped by query: one for a question, several for a message; one for identifiers."""
        if not self.identifiers:
            return self._word_parts
        terms = list(self.identifiers.list_terms(self.stop_word_language))
        return [*self._word_parts, query_parts.QueryPart(terms, query_parts.IDENTIFIER_BOOST)]

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
            query_parts.extract_last_sentences(self.search_text, self.stop_word_language), self.stop_word_language
        )
        return terms[-query_parts.MAX_QUESTION_WORDS :]

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
        return any(span.overlaps(start, end) for span in self.time_spans)

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
    question = query_parts.extract_last_sentences(question, language if language in languages else "")
    _, first_person_text, authors = _remove_speaker_names(question, speakers, stop_words)
    if not (query_parts.is_message(search_text) or lucene.extract_terms(search_text)):
        search_text = first_person_text = question
    time_spans = find_date_ranges(question, now.replace(microsecond=0, second=0, minute=0), language)
    is_earlier = _EARLIER_WORDS.search(question) is not None and _PAST_VERBS.search(question) is not None
    is_past = is_earlier or _PAST_WORDS.search(question) is not None or _has_past_span(time_spans, now)
    is_past = is_past or (language != "en" and _has_past_year(question, now))
    return ParsedQuestion(
        search_text,
        first_person_text,
        authors[0] if len(authors) == 1 else None,
        language,
        language in languages,
        time_spans,
        is_past=is_past,
        is_present=not is_past and language == "en" and _is_about_present(question),
        is_about_third_party=not authors
        and language == "en"
        and _THIRD_PARTY.search(question) is not None
        and _FIRST_PERSON.search(question) is None,
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


def _has_past_span(time_spans: Sequence[DateRange], now: datetime) -> bool:
    return any(not span.is_yearly and span.end <= now for span in time_spans)


def _has_past_year(question: str, now: datetime) -> bool:
    """Whether the question names a past year, in any language."""
    return any(int(year) < now.year for year in _YEAR.findall(question))


def _is_about_present(question: str) -> bool:
    """Whether an English question has one answer that may change."""
    return "?" in question and not any(
        pattern.search(question) for pattern in (_PAST_VERBS, _PLURAL_QUESTION, _EVER_QUESTION)
    )


def _remove_speaker_names(
    question: str, speakers: Sequence[Sequence[str]], stop_words: Container[str]
) -> tuple[str, str, list[str]]:
    """Return the question without speakers' names, the same in the first person, and the authors that it names."""
    patterns = {names[0]: _make_names_pattern(names, stop_words) for names in speakers}
    authors = [author for author, pattern in patterns.items() if pattern and pattern.search(question)]
    is_english = question.replace("’", "'").isascii()  # or close enough for "I" and "my" to do no harm
    search_text = first_person_text = question
    for author in authors:
        pattern = patterns[author]
        if pattern is not None:
            replacement = _replace_with_pronoun if len(authors) == 1 and is_english else " "
            search_text, first_person_text = pattern.sub(" ", search_text), pattern.sub(replacement, first_person_text)
    if not authors:
        return question, question, []
    return " ".join(search_text.split()), " ".join(first_person_text.split()), authors


def _replace_with_pronoun(match: re.Match[str]) -> str:
    return "my" if match["possessive"] else "I"


def _make_names_pattern(names: Sequence[str], stop_words: Container[str]) -> re.Pattern[str] | None:
    """Make a pattern for the names as people write them: a first name alone too, an id with a capital letter.

    The author's name comes first. Among the other names and first names, a stop word ("the", "my", "me") is no name.
    """
    author, *others = names
    first_names = [name.split()[0] for name in names if " " in name.strip()]
    names = [author, *(name for name in (*others, *first_names) if name.casefold() not in stop_words)]
    forms = {form for name in names for form in (name, name[:1].upper() + name[1:]) if len(name) > 1}
    if not forms:
        return None
    patterns = "|".join(_make_word_pattern(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
    return re.compile(rf"(?:{patterns})(?P<possessive>['’]s\b)?")


def _make_word_pattern(name: str) -> str:
    """Match the name as a whole word; in scripts without spaces, anywhere."""
    return re.escape(name) if has_wide_character(name) else rf"(?<!\w){re.escape(name)}(?!\w)"
