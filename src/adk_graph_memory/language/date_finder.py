"""Find the dates that a sentence names and resolve them against the time it was said.

"On Saturday" depends on whether the sentence looks back or ahead, so each date is read both ways. Where the readings
differ, no date is returned.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any, Literal

from dateparser.date import DateData, DateDataParser
from dateparser.languages.loader import default_loader
from dateparser.search import search_dates

from adk_graph_memory.language.detection import WIDE_CHARACTER, WORD_PATTERN, load_stop_words

_MONTHS_AND_DAYS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"),
    *("december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
)
_TIME_UNITS = ("year", "month", "week", "day", "hour", "ago")
YEAR_PATTERN = re.compile(r"(?:19|20)\d\d")
_NUMERIC_DATE = re.compile(r"\d{1,2}([/.\-])\d{1,2}\1\d{2,4}")
_DAY_NUMBER = re.compile(r"\d{1,2}(?![\d:])")
_MORNING_PREFIX = re.compile(r"\b(?:la|esta|guten|am|jeden|diesen)\s+$", re.IGNORECASE)
MAX_SENTENCE_LENGTH = 600
"""Characters above which a sentence is not searched for dates."""
_REPARSE_OFFSETS = {"day": timedelta(weeks=1), "month": timedelta(days=31), "year": timedelta(days=366)}
"""How much earlier a sentence is parsed again, by the precision of its date."""

DATEPARSER_LOCK = threading.Lock()
"""dateparser is not thread-safe: it caches language data in plain dictionaries."""


@dataclass(frozen=True, slots=True)
class DateMention:
    """A date in a sentence: its day (the first of a month or year) and its precision."""

    at: datetime
    precision: Literal["year", "month", "day"] = "day"


@cache
def _load_locale_info(language: str) -> dict[str, Any]:
    try:
        info: dict[str, Any] = default_loader.get_locale(language).info
    except ValueError:
        return {}
    return info


@cache
def load_calendar_words(language: str) -> frozenset[str]:
    """The casefolded names of months and weekdays in a language."""
    names = [name for key in _MONTHS_AND_DAYS for name in _load_locale_info(language).get(key, ())]
    return frozenset(name.casefold() for name in names)


@cache
def _load_date_hints(language: str) -> frozenset[str]:
    """Words of which a sentence without a digit needs one to name a date; most sentences need no search."""
    info = _load_locale_info(language)
    phrases = [phrase for key in _TIME_UNITS for phrase in info.get(key, ())]
    phrases += [phrase for options in info.get("relative-type", {}).values() for phrase in options]
    words = {match[0] for phrase in phrases for match in WORD_PATTERN.finditer(str(phrase).casefold())}
    return frozenset(word for word in words | load_calendar_words(language) if len(word) > 2)


def find_dates(sentence: str, at: datetime, language: str) -> list[DateMention]:
    """The dates that the sentence names, in its order.

    Args:
        sentence: a sentence in one language.
        at: when it was said; dates are in its time zone.
        language: ISO 639-1.
    """
    if len(sentence) > MAX_SENTENCE_LENGTH or not has_date_hint(sentence, language):
        return []
    with DATEPARSER_LOCK:
        return [mention for mention, _ in _find_mentions(sentence, at, language)]


def _find_mentions(sentence: str, at: datetime, language: str) -> list[tuple[DateMention, str]]:
    """The dates that the sentence names, each with its words."""
    words_of_dates = [sentence[start:end] for start, end in locate_dates(sentence, at.replace(tzinfo=None), language)]
    mentions = []
    for words in words_of_dates:
        if (day := _resolve_date(words, at, language)) is not None:
            unit = detect_date_unit(words, at.replace(tzinfo=None), language)
            mention = DateMention(day, "year" if unit == "year" else "month" if unit == "month" else "day")
            mentions.append((mention, words))
    return mentions


def find_relative_date(sentence: str, at: datetime, language: str) -> DateMention | None:
    """The single past date that the sentence names relative to ``at`` ("last year"), or None.

    A relative date moves when the sentence is parsed as of an earlier time. An absolute one ("a tape from 1974") does
    not, and rules cannot tell what it dates.
    """
    if len(sentence) > MAX_SENTENCE_LENGTH or not _has_date_word(sentence, language):
        return None
    with DATEPARSER_LOCK:
        mentions = _find_mentions(sentence, at, language)
        if len(mentions) != 1 or mentions[0][0].at > at:
            return None
        [(mention, words)] = mentions
        step = _REPARSE_OFFSETS[mention.precision]
        earlier = _resolve_date(words, at - step, language)
    return mention if earlier and timedelta() < mention.at - earlier <= 2.1 * step else None


def has_date_hint(sentence: str, language: str) -> bool:
    """Whether the sentence may name a date."""
    has_digit = any(character.isdigit() for character in sentence)
    return bool(has_digit and _load_locale_info(language)) or _has_date_word(sentence, language)


def _has_date_word(sentence: str, language: str) -> bool:
    """Whether the sentence has a word of dates, as one that tells how long ago something was does in any language."""
    if language in ("zh", "ja", "ko", "th"):
        return bool(_load_locale_info(language))
    return any(match[0] in _load_date_hints(language) for match in WORD_PATTERN.finditer(sentence.casefold()))


def locate_dates(sentence: str, base: datetime, language: str) -> Iterator[tuple[int, int]]:
    """The spans of the sentence that can be read as a date."""
    settings = {"RELATIVE_BASE": base, "RETURN_AS_TIMEZONE_AWARE": False}
    end = 0
    for words, _ in search_dates(sentence, languages=[language], settings=settings) or ():
        words = _trim_date_words(words, language)
        start = sentence.find(words, end)
        if start < 0 or not words:
            continue
        end = start + len(words)
        if _is_date(sentence, start, end, language):
            yield start, end


def _trim_date_words(words: str, language: str) -> str:
    """Strip words that dateparser includes by mistake ("3. März 2024 in")."""
    parts = words.split(" ")
    ignorable = load_stop_words(language) - _load_date_hints(language)
    while len(parts) > 1 and parts[-1].casefold() in ignorable:
        parts.pop()
    while _is_idle_number(parts) or (len(parts) > 1 and _NUMERIC_DATE.fullmatch(parts[1])):
        parts.pop(0)
    return " ".join(parts).strip(" ,;:")


def _is_idle_number(parts: list[str]) -> bool:
    """Whether the first number is not part of the date ("turns 70 on 28 June"), for another one is its day."""
    return parts[0].isdigit() and any(_DAY_NUMBER.match(part) for part in parts[2:])


def _is_date(sentence: str, start: int, end: int, language: str) -> bool:
    """Reject what only looks like a date: "We" (Wednesday), "may", a number, 5/6/2024 (ambiguous between countries)."""
    words, before, after = sentence[start:end], sentence[:start], sentence[end:]
    if (words[0].isdigit() and re.search(r"[\d+(/.\-]\s?$", before)) or re.match(r"[\d%]|[.\-/]\d|\s\d", after):
        return False
    if YEAR_PATTERN.fullmatch(words):
        previous_words, next_word = WORD_PATTERN.findall(before)[-1:], re.match(r"\s+(\w+)", after)
        follows_stop_word = bool(previous_words) and previous_words[0].casefold() in load_stop_words(language)
        return follows_stop_word and not (next_word and next_word[1].casefold() not in load_stop_words(language))
    if numeric := _NUMERIC_DATE.fullmatch(words):
        return numeric[1] == "." or len(set(re.split(r"[/\-]", words)[:2])) == 1
    if re.fullmatch(r"[\d\s.,:]+", words):
        return False
    if words.casefold() in ("mañana", "morgen") and _MORNING_PREFIX.search(before):
        return False
    if any(character.isdigit() for character in words):
        return True
    names = WORD_PATTERN.findall(words)
    if len(names) != 1 or not names[0].isascii():
        return True
    [name] = names
    is_ordinary_word = language == "en" and name.islower() and name in load_calendar_words(language)
    return len(name) > 3 and not is_ordinary_word


def _resolve_date(words: str, at: datetime, language: str) -> datetime | None:
    base = at.replace(tzinfo=None)
    date, ahead = parse_past_and_future(words, base, language)
    if date is None or date != ahead or date.date() == base.date() or not 1900 <= date.year <= 2200:
        return None
    return date.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=at.tzinfo)


def has_calendar_word(words: str, language: str) -> bool:
    """Whether the words name a month or weekday, unlike "two weeks", which may be a duration."""
    calendar_words = load_calendar_words(language)
    if any(match[0] in calendar_words for match in WORD_PATTERN.finditer(words.casefold())):
        return True
    return any(name in words for name in calendar_words if WIDE_CHARACTER.search(name))


@lru_cache(maxsize=1_000)
def parse_past_and_future(words: str, base: datetime, language: str) -> tuple[datetime | None, datetime | None]:
    """Parse the words looking back and looking ahead; drop an unreadable hour at their end ("at five")."""
    parts = words.split(" ")
    for length in range(len(parts), max(0, len(parts) - 3), -1):
        shorter = " ".join(parts[:length])
        past, future = (_parse_date(shorter, base, language, direction) for direction in ("past", "future"))
        if past is not None:
            return past, future
    return None, None


def _parse_date(words: str, base: datetime, language: str, direction: str) -> datetime | None:
    date = _call_dateparser(words, base, language, direction).date_obj
    return date.replace(tzinfo=None) if date else None


def detect_date_unit(words: str, base: datetime, language: str) -> str:
    """The unit that the words name: ``day``, ``week``, ``month`` or ``year``."""
    return str(_call_dateparser(words, base, language, "past").period)


def _call_dateparser(words: str, base: datetime, language: str, direction: str) -> DateData:
    settings = {
        "RELATIVE_BASE": base,
        "PREFER_DATES_FROM": direction,
        "PREFER_DAY_OF_MONTH": "first",
        "PREFER_MONTH_OF_YEAR": "first",
        "RETURN_AS_TIMEZONE_AWARE": False,
    }
    try:
        return DateDataParser(languages=[language], settings=settings).get_date_data(words)
    except (ValueError, OverflowError):
        return DateData()
