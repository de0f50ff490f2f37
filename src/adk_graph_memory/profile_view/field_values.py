"""Read the value of a field from one fact: its object's name, or a number, a date or a choice in its text."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from adk_graph_memory.language.date_finder import find_dates
from adk_graph_memory.language.detection import detect_language
from adk_graph_memory.profile_view.concepts import stem_text
from adk_graph_memory.records import ProfileCandidate, fold_text

_DENIAL = re.compile(r"\b(no|not|never|without|neither|nor|none)\b|n['’]t\b", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[,;:.]|\b(?:and|but)\b", re.IGNORECASE)
_START_STEMS = frozenset(stem_text("since start started begin from"))
"""A date with such a word in its name is that since when a fact holds."""
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATES_AND_TIMES = re.compile(
    rf"\d{{4}}-\d\d(?:-\d\d)?|\d{{1,2}}:\d\d|\b\d{{1,2}}(?:st|nd|rd|th)? (?:{_MONTHS})[a-z]*(?: \d{{4}})?"
    rf"|\b(?:{_MONTHS})[a-z]* (?:\d{{1,2}}(?:st|nd|rd|th)?,? )?(?:19|20)\d\d\b|\b(?:in|since|of) (?:19|20)\d\d\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.])-?\d+(?:\.\d+)?")
_PATTERNS = {
    frozenset(stem_text("phone telephone mobile cell")): re.compile(r"\+?\d[\d ()/-]{3,}\d"),
    frozenset(stem_text("email mail")): re.compile(r"[^\s<>,;]+@[^\s<>,;]+\w"),
}
"""Values whose form tells where they begin and end, by words of the field's name."""
_COMPLEMENT = re.compile(
    r"\b(?:is|are|was|am|called|named|as) (?:(?:a|an|the) )?(?P<value>[^,;:.]{1,60})\.?$", re.IGNORECASE
)
_WORD = re.compile(r"\w+")
_MAX_COMPLEMENT_WORDS = 5


def read_value(kind: Any, candidate: ProfileCandidate, field_stems: Collection[str]) -> Any:
    """The value of a field of this type; None if the fact does not tell it.

    A denial tells a yes-or-no field that it is not so, and no other field anything.
    """
    if kind is bool:
        return _read_truth(candidate, field_stems)
    if candidate.fact.modality == "negated":
        return None
    if get_origin(kind) is Literal:
        return _choose(candidate, {str(choice): choice for choice in get_args(kind)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choose(candidate, {str(choice.value): choice for choice in kind})
    if kind in (int, float, Decimal):
        return _read_number(kind, candidate)
    if kind in (date, datetime):
        return _read_date(kind, candidate, field_stems)
    return _read_text(candidate, field_stems) if kind in (str, Any) else None


def _read_text(candidate: ProfileCandidate, field_stems: Collection[str]) -> str:
    text = " ".join(candidate.fact.text.split())
    for stems, pattern in _PATTERNS.items():
        if stems.intersection(field_stems) and (match := pattern.search(text)):
            return match[0]
    if candidate.other_name:
        return candidate.other_name
    match = _COMPLEMENT.search(text)
    is_short = match is not None and len(match["value"].split()) <= _MAX_COMPLEMENT_WORDS
    return match["value"] if match and is_short and not _DENIAL.search(match["value"]) else text


def _read_truth(candidate: ProfileCandidate, field_stems: Collection[str]) -> bool | None:
    fact = candidate.fact
    words = stem_text(
        f"{fact.predicate} {fact.object or ''} {fact.topic or ''} {fact.text} {candidate.other_type or ''}"
    )
    if not set(field_stems) <= set(words):
        return None
    if fact.modality == "negated":
        return False
    clauses = [clause for clause in _CLAUSE_END.split(fact.text) if not set(field_stems).isdisjoint(stem_text(clause))]
    return None if any(map(_DENIAL.search, clauses)) else True


def _choose(candidate: ProfileCandidate, choices: dict[str, Any]) -> Any:
    """The only choice that the fact names; None if it names none or several."""
    for text in (candidate.other_name or "", candidate.fact.text):
        words = _space_words(text)
        values = [value for name, value in choices.items() if _space_words(name) in words]
        if len(values) == 1:
            return values[0]
    return None


def _space_words(text: str) -> str:
    """The words of a text between spaces, so that one word is not found within another."""
    return f" {' '.join(_WORD.findall(fold_text(text)))} "


def _read_number(kind: Any, candidate: ProfileCandidate) -> Any:
    """The only number of the object's name or of the text, dates and times aside."""
    for text in (candidate.fact.object or "", candidate.fact.text):
        numbers = {number.replace(",", "") for number in _NUMBER.findall(_DATES_AND_TIMES.sub(" ", text))}
        if len(numbers) == 1:
            [number] = numbers
            return kind(number) if kind is not int or "." not in number else None
    return None


def _read_date(kind: Any, candidate: ProfileCandidate, field_stems: Collection[str]) -> Any:
    fact = candidate.fact
    moment = fact.valid_from if _START_STEMS.intersection(field_stems) else None
    if moment is None or fact.valid_from_precision not in ("day", "time"):
        texts = [text for text in (fact.object, fact.text) if text]
        days = [
            {mention.at for mention in find_dates(text, fact.at, detect_language(text)) if mention.precision == "day"}
            for text in texts
        ]
        moment = next((next(iter(moments)) for moments in days if len(moments) == 1), None)
    return None if moment is None else moment if kind is datetime else moment.date()
