"""A sentence, the days in it and how it is said go in; since when and until when it holds come out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from adk_graph_memory.extraction import modality
from adk_graph_memory.extraction.slots import Claim
from adk_graph_memory.language.dates import Day, Direction, days
from adk_graph_memory.records import Modality

_SINCE = (
    r"(?:since|from|as of|starting|seit(?: dem)?|ab(?: dem)?|desde(?: el)?|a partir del?|depuis(?: le)?|с|со|من|منذ|od)"
)
_UNTIL = r"(?:until|till|through|to|bis(?: zum)?|hasta(?: el)?|jusqu['’]au?|до|حتى)"
_SINCE_BEFORE = re.compile(rf"(?<!\w){_SINCE}\s+(?:the\s+)?$", re.IGNORECASE)
_SINCE_INSIDE = re.compile(rf"{_SINCE}\s", re.IGNORECASE)
_UNTIL_BEFORE = re.compile(rf"(?<!\w){_UNTIL}\s+(?:the\s+)?$", re.IGNORECASE)
_UNTIL_INSIDE = re.compile(rf"{_UNTIL}\s", re.IGNORECASE)
_ANY_SINCE = re.compile(r"(?<!\w)(?:since|seit|desde|depuis|с|со|منذ)\s", re.IGNORECASE)
_ENDS_IN_JAPANESE = re.compile(r"\s*から")


@dataclass(frozen=True, slots=True)
class Named:
    """The days that a sentence names, by what it says of them."""

    since: datetime | None = None
    until: datetime | None = None
    on: tuple[datetime, ...] = ()


Validity = tuple[datetime | None, datetime | None]


def _named(sentence: str, found: list[Day]) -> Named:
    since = until = None
    on = []
    for day in found:
        before, words = sentence[: day.start], sentence[day.start : day.end]
        if _SINCE_BEFORE.search(before) or _SINCE_INSIDE.match(words) or _ENDS_IN_JAPANESE.match(sentence, day.end):
            since = since or day.at
        elif _UNTIL_BEFORE.search(before) or _UNTIL_INSIDE.match(words):
            until = until or day.at
        else:
            on.append(day.at)
    return Named(since, until, tuple(on))


def of_claim(claim: Claim, sentence: str, at: datetime, language: str) -> Validity:
    """When what a verb claims began and ended, as far as its own clause says so."""
    if claim.modality in ("hypothetical", "reported"):
        return None, None
    clause = sentence[claim.clause[0] : claim.clause[1]]
    planned = claim.modality == "planned"
    direction: Direction | None = "future" if planned else "past" if claim.dated or claim.past else None
    if not planned and _ANY_SINCE.search(clause):
        direction = "past"
    named = _named(clause, days(clause, at, language, direction))
    since, until = named.since, named.until
    if claim.dated and since is None and len(named.on) == 1:
        since = named.on[0]
    if claim.past:
        until = until or at
    return _checked(since, until, at, planned=planned)


def of_statement(sentence: str, way: Modality, at: datetime, language: str) -> Validity:
    """When an ordinary statement's one day was, where that day tells when it happened or shall happen."""
    if way in ("hypothetical", "reported"):
        return None, None
    direction = "future" if way == "planned" else modality.direction_of(sentence) if language == "en" else None
    if way != "planned" and direction is None and _ANY_SINCE.search(sentence):
        direction = "past"
    named = _named(sentence, days(sentence, at, language, direction))
    since = named.since or (named.on[0] if len(named.on) == 1 and named.until is None else None)
    return _checked(since, named.until if since else None, at, planned=way == "planned")


def _checked(since: datetime | None, until: datetime | None, at: datetime, *, planned: bool) -> Validity:
    """What is so cannot have begun in the future, and what is planned not in the past; an end comes after its start."""
    if since and (since > at) != planned:
        since = None
    return since, until if until and (since is None or until > since) else None


def is_ahead(sentence: str, at: datetime, language: str) -> bool:
    """Whether it says that somebody "is coming" on a day that is still to come."""
    if language != "en" or not modality.is_ongoing(sentence):
        return False
    direction = modality.direction_of(sentence)
    return direction == "future" and any(day.at > at for day in days(sentence, at, language, direction))
