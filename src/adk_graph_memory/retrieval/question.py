"""A question and those who speak go in; whom it asks about, and the question as memory is best searched, come out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from adk_graph_memory.graph import lucene
from adk_graph_memory.records import is_wide


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about somebody who speaks hardly finds their turns by their name, for these say "I".

    ``words`` is the question without the names of those who speak; ``spoken`` is it as the one it asks about would put
    it; ``author`` is that one, None if it asks about nobody who speaks, or about several.
    """

    words: str
    spoken: str
    author: str | None = None


def understood(question: str, speakers: Sequence[Sequence[str]]) -> Asked:
    """Whom the question asks about.

    Args:
        question: as it was typed.
        speakers: of each one the author's name and whatever else they are called.
    """
    patterns = {names[0]: _pattern(names) for names in speakers}
    named = [author for author, pattern in patterns.items() if pattern and pattern.search(question)]
    is_english = question.replace("’", "'").isascii()  # or close enough for "I" and "my" to do no harm
    words = spoken = question
    for author in named:
        pattern = patterns[author]
        if pattern is not None:
            words = pattern.sub(" ", words)
            spoken = pattern.sub(_first_person if len(named) == 1 and is_english else " ", spoken)
    words, spoken = (" ".join(text.split()) for text in (words, spoken))
    if not named or not lucene.terms(words):
        return Asked(question, question, named[0] if len(named) == 1 else None)
    return Asked(words, spoken, named[0] if len(named) == 1 else None)


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
