"""A question and those who speak go in; what it asks, and how memory is best searched for it, come out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from adk_graph_memory.graph import lucene
from adk_graph_memory.language.spans import Span, spans
from adk_graph_memory.language.words import language_of
from adk_graph_memory.records import is_wide

TOLD_LATER = timedelta(days=7)
"""How long after it happened people still tell what happened at the time that a question names."""

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_PAST = re.compile(
    r"\b(?:used to|before|previous(?:ly)?|former(?:ly)?|earlier|originally|first(?! name)|back then|in the past|old"
    r"|until|antes|anterior(?:mente)?|solía|primer[oa]?|früher\w*|vorher|damals|erste\w*|avant|ancien\w*|autrefois"
    r"|premi(?:er|ère)|prima|primo|раньше|прежн\w*|бывш\w*|перв\w+)\b"
    r"|以前|之前|从前|最初|第一|昔|かつて|예전|전에|처음",
    re.IGNORECASE,
)
_AGENT = re.compile(
    r"\b(?:you|your|recommended|suggested|tú|usted|te|du|sie|dir|vous|tu|ты|вы)\b|你|您|あなた|당신", re.IGNORECASE
)
_WAS = re.compile(r"\b(?:did|was|were|had|ago)\b", re.IGNORECASE)
_SEVERAL = re.compile(
    r"\b(?:what|which|whose)(?: \w+){0,2} \w+[^su\W]s (?:of \w+ )?(?:do|does|has|have|are|can|could|would|might)\b"
    r"|\b(?:what|who) are\b|\b(?:kinds?|types?|sorts?|some) of\b",
    re.IGNORECASE,
)
"""Asks for all that there is, which has no latest answer."""
_EVER = re.compile(r"^(?!.*\b(?:do|does)\b).*\b(?:has|have)\b", re.IGNORECASE | re.DOTALL)
"""Asks what has ever been."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about somebody who speaks hardly finds their turns by their name, for these say "I".

    ``words`` is the question without the names of those who speak; ``spoken`` is it as the one it asks about would put
    it; ``author`` is that one, None if it asks about nobody who speaks, or about several. ``times`` are those that it
    names, ``is_past`` and ``is_present`` whether it asks what was so before, or what is so now; ``of_agent`` whether it
    speaks to the agent itself.
    """

    words: str
    spoken: str
    author: str | None = None
    language: str = "en"
    times: tuple[Span, ...] = ()
    is_past: bool = False
    is_present: bool = False
    of_agent: bool = False

    @property
    def terms(self) -> list[str]:
        """The words to search for."""
        return lucene.terms(self.words, self.language)

    def fits(self, timestamp: float) -> float:
        """1 at a time that the question names, a half in the days after, when people tell of it; else 0."""
        if not self.times:
            return 0.0
        moment = datetime.fromtimestamp(timestamp, UTC)
        after = [late for span in self.times if (late := span.after(moment)) is not None and late <= TOLD_LATER]
        return 0.0 if not after else 0.5 if min(after) else 1.0

    def held(self, since: float | None, until: float | None) -> bool:
        """Whether something was so at a time that the question names."""
        start = _EARLIEST if since is None else datetime.fromtimestamp(since, UTC)
        return until is not None and any(
            span.overlaps(start, datetime.fromtimestamp(until, UTC)) for span in self.times
        )


def understood(question: str, speakers: Sequence[Sequence[str]], now: datetime) -> Asked:
    """What a question asks.

    Args:
        question: as it was typed.
        speakers: of each one the author's name and whatever else they are called.
        now: what "last week" goes by.
    """
    words, spoken, named = _without(question, speakers)
    if not lucene.terms(words):
        words = spoken = question
    language = language_of(question)
    times = spans(question, now.astimezone(UTC).replace(microsecond=0, second=0, minute=0), language)
    is_past = _PAST.search(question) is not None or any(not span.is_yearly and span.end <= now for span in times)
    return Asked(
        words,
        spoken,
        named[0] if len(named) == 1 else None,
        language,
        times,
        is_past=is_past,
        is_present=not is_past and language == "en" and _asks_what_is_so(question),
        of_agent=_AGENT.search(question) is not None,
    )


def _asks_what_is_so(question: str) -> bool:
    """Whether an English question has one answer that may change."""
    return "?" in question and not any(other.search(question) for other in (_WAS, _SEVERAL, _EVER))


def _without(question: str, speakers: Sequence[Sequence[str]]) -> tuple[str, str, list[str]]:
    """The question without the names of those who speak, the same in the first person, and whom it names."""
    patterns = {names[0]: _pattern(names) for names in speakers}
    named = [author for author, pattern in patterns.items() if pattern and pattern.search(question)]
    is_english = question.replace("’", "'").isascii()  # or close enough for "I" and "my" to do no harm
    words = spoken = question
    for author in named:
        pattern = patterns[author]
        if pattern is not None:
            words = pattern.sub(" ", words)
            spoken = pattern.sub(_first_person if len(named) == 1 and is_english else " ", spoken)
    if not named:
        return question, question, []
    return " ".join(words.split()), " ".join(spoken.split()), named


def _first_person(found: re.Match[str]) -> str:
    return "my" if found["possessive"] else "I"


def _pattern(names: Sequence[str]) -> re.Pattern[str] | None:
    """Finds any of the names as people write them: a first name alone too, an id with a capital letter."""
    first = [name.split()[0] for name in names if " " in name.strip()]
    forms = {form for name in (*names, *first) for form in (name, name[:1].upper() + name[1:]) if len(name) > 1}
    if not forms:
        return None
    ways = "|".join(_alone(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
    return re.compile(rf"(?:{ways})(?P<possessive>['’]s\b)?")


def _alone(name: str) -> str:
    """The name, not inside another word; scripts without spaces know no such thing."""
    return re.escape(name) if is_wide(name) else rf"(?<!\w){re.escape(name)}(?!\w)"
