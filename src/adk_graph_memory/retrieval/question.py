"""A question and those who speak go in; what it asks, and how memory is best searched for it, come out."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache

from adk_graph_memory.graph import lucene
from adk_graph_memory.language.date_ranges import DateRange, find_date_ranges
from adk_graph_memory.language.detection import detect_language, load_stop_words
from adk_graph_memory.records import has_wide_character
from adk_graph_memory.retrieval import query_parts

REPORTING_DELAY = timedelta(days=7)
"""How long after it happened people still tell what happened at the time that a question names."""

EARLIEST_TIMESTAMP, LATEST_TIMESTAMP = (
    datetime(1900, 1, 1, tzinfo=UTC).timestamp(),
    datetime(2200, 1, 1, tzinfo=UTC).timestamp(),
)
"""Seconds since 1970 between which people speak of days."""

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
"""Tells of the past where the verb does too."""
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
"""How the agent itself is spoken to, by language."""
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
"""Asks for all that there is, which has no latest answer."""
_EVER_QUESTION = re.compile(r"^(?!.*\b(?:do|does)\b).*\b(?:has|have)\b", re.IGNORECASE | re.DOTALL)
"""Asks what has ever been."""
_OWN_BELONGINGS = re.compile(r"\b(?:my|our)((?:\s+\w+){1,3})", re.IGNORECASE)
_OTHERS_BELONGINGS = re.compile(
    r"(?:\b(?!(?:it|that|this|what|there|here|where|how|who|he|she|let)['’])\w+['’]s|\b(?:his|her|their))"
    r"((?:\s+\w+){1,3})",
    re.IGNORECASE,
)
"""What belongs to whoever speaks, and what to somebody else."""


@dataclass(frozen=True)
class ParsedQuestion:
    """A question about somebody who speaks hardly finds their turns by their name, for these say "I".

    Attributes:
        search_text: the question without the names of those who speak; of a long message all of it. All else is read
            from the message's ending.
        first_person_text: that, as the one it asks about would put it.
        author: that one; None if it asks about nobody who speaks, or about several.
        language: of the question.
        is_native: whether people here speak its language.
        time_spans: the times that it names.
        is_past: whether it asks what was so before.
        is_present: whether it asks what is so now.
        is_about_third_party: whether it names somebody or something, and neither a speaker nor its asker.
        is_to_agent: whether it speaks to the agent itself.
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
        """The language whose ordinary words say nothing; none where nobody here speaks it ("dog" is Danish too)."""
        return self.language if self.is_native else ""

    @cached_property
    def query_parts(self) -> list[query_parts.QueryPart]:
        """The words to search for, as they are searched for together: at once, or of a message part by part."""
        return query_parts.split_query_parts(self.search_text, self.stop_word_language)

    @property
    def terms(self) -> list[str]:
        """The same words."""
        return [term for part in self.query_parts for term in part.terms]

    @property
    def is_message(self) -> bool:
        """Whether it is longer than a question."""
        return len(self.query_parts) > 1

    @cached_property
    def asking_terms(self) -> list[str]:
        """The words of what is asked: of a message those of its ending."""
        found = lucene.extract_terms(
            query_parts.extract_last_sentences(self.search_text, self.stop_word_language), self.stop_word_language
        )
        return found[-query_parts.MAX_QUESTION_WORDS :]

    def is_about_others(self, words: str) -> bool:
        """Whether words say of somebody else's what the question asks of its asker's own: "my sister's wedding"."""
        mine = _find_own_belongings(self.first_person_text)
        theirs = _find_belongings(_OTHERS_BELONGINGS, words) if mine else mine
        return not mine.isdisjoint(theirs) and mine.isdisjoint(_find_belongings(_OWN_BELONGINGS, words))

    def score_timestamp(self, timestamp: float) -> float:
        """1 at a time that the question names, a half in the days after, when people tell of it; else 0."""
        if not self.time_spans or not EARLIEST_TIMESTAMP < timestamp < LATEST_TIMESTAMP:
            return 0.0
        moment = datetime.fromtimestamp(timestamp, UTC)
        after = [
            late
            for span in self.time_spans
            if (late := span.measure_time_since(moment)) is not None and late <= REPORTING_DELAY
        ]
        return 0.0 if not after else 1.0 if min(after) < timedelta() else 0.5

    def has_overlapping_time(self, since: float | None, until: float | None) -> bool:
        """Whether something was so at a time that the question names."""
        if until is None:
            return False
        start, end = (
            datetime.fromtimestamp(min(LATEST_TIMESTAMP, max(EARLIEST_TIMESTAMP, time)), UTC)
            for time in (since or EARLIEST_TIMESTAMP, until)
        )
        return any(span.overlaps(start, end) for span in self.time_spans)


def parse_question(
    question: str, speakers: Sequence[Sequence[str]], now: datetime, languages: Sequence[str] = ("en",)
) -> ParsedQuestion:
    """What a question asks.

    Args:
        question: as it was typed.
        speakers: of each one the author's name and whatever else they are called.
        now: what "last week" goes by.
        languages: what people speak here, the most usual first.
    """
    language = detect_language(question, *languages)
    ordinary = load_stop_words(language)
    words, *_ = _remove_speaker_names(question, speakers, ordinary)
    question = query_parts.extract_last_sentences(question, language if language in languages else "")
    _, spoken, named = _remove_speaker_names(question, speakers, ordinary)
    if not (query_parts.is_message(words) or lucene.extract_terms(words)):
        words = spoken = question
    times = find_date_ranges(question, now.replace(microsecond=0, second=0, minute=0), language)
    is_earlier = _EARLIER_WORDS.search(question) is not None and _PAST_VERBS.search(question) is not None
    is_past = is_earlier or _PAST_WORDS.search(question) is not None or _has_past_span(times, now)
    is_past = is_past or (language != "en" and _has_past_year(question, now))
    return ParsedQuestion(
        words,
        spoken,
        named[0] if len(named) == 1 else None,
        language,
        language in languages,
        times,
        is_past=is_past,
        is_present=not is_past and language == "en" and _is_about_present(question),
        is_about_third_party=not named
        and language == "en"
        and _THIRD_PARTY.search(question) is not None
        and _FIRST_PERSON.search(question) is None,
        is_to_agent=language in _AGENT_ADDRESS
        and _AGENT_ADDRESS[language].search(_POLITE_REQUEST.sub("", question)) is not None,
    )


@lru_cache(maxsize=64)
def _find_own_belongings(question: str) -> frozenset[str]:
    """What a question asks of its asker's own, if it speaks of nobody else's; asked anew for every candidate."""
    return frozenset() if _OTHERS_BELONGINGS.search(question) else _find_belongings(_OWN_BELONGINGS, question)


def _find_belongings(owner: re.Pattern[str], text: str) -> frozenset[str]:
    """The words behind those that say whose something is, but for ordinary ones."""
    found = {word for match in owner.finditer(text) for word in match[1].casefold().split()}
    return frozenset(found - load_stop_words("en"))


def _has_past_span(times: Sequence[DateRange], now: datetime) -> bool:
    return any(not span.is_yearly and span.end <= now for span in times)


def _has_past_year(question: str, now: datetime) -> bool:
    """Whether a year that is over stands in the question, in whatever language."""
    return any(int(year) < now.year for year in _YEAR.findall(question))


def _is_about_present(question: str) -> bool:
    """Whether an English question has one answer that may change."""
    return "?" in question and not any(
        other.search(question) for other in (_PAST_VERBS, _PLURAL_QUESTION, _EVER_QUESTION)
    )


def _remove_speaker_names(
    question: str, speakers: Sequence[Sequence[str]], ordinary: Container[str]
) -> tuple[str, str, list[str]]:
    """The question without the names of those who speak, the same in the first person, and whom it names."""
    patterns = {names[0]: _make_names_pattern(names, ordinary) for names in speakers}
    named = [author for author, pattern in patterns.items() if pattern and pattern.search(question)]
    is_english = question.replace("’", "'").isascii()  # or close enough for "I" and "my" to do no harm
    words = spoken = question
    for author in named:
        pattern = patterns[author]
        if pattern is not None:
            words = pattern.sub(" ", words)
            spoken = pattern.sub(_replace_with_pronoun if len(named) == 1 and is_english else " ", spoken)
    if not named:
        return question, question, []
    return " ".join(words.split()), " ".join(spoken.split()), named


def _replace_with_pronoun(found: re.Match[str]) -> str:
    return "my" if found["possessive"] else "I"


def _make_names_pattern(names: Sequence[str], ordinary: Container[str]) -> re.Pattern[str] | None:
    """Finds any of the names as people write them: a first name alone too, an id with a capital letter.

    The author's name comes first; of the others, and of first names, an ordinary word ("the", "my", "me") names nobody.
    """
    author, *others = names
    first = [name.split()[0] for name in names if " " in name.strip()]
    names = [author, *(name for name in (*others, *first) if name.casefold() not in ordinary)]
    forms = {form for name in names for form in (name, name[:1].upper() + name[1:]) if len(name) > 1}
    if not forms:
        return None
    ways = "|".join(_make_word_pattern(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
    return re.compile(rf"(?:{ways})(?P<possessive>['’]s\b)?")


def _make_word_pattern(name: str) -> str:
    """The name, not inside another word; scripts without spaces know no such thing."""
    return re.escape(name) if has_wide_character(name) else rf"(?<!\w){re.escape(name)}(?!\w)"
