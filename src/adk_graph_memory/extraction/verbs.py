"""The verbs that state a home, an employer and the like, as data: what they look like and what they mean."""

from __future__ import annotations

import re
from dataclasses import dataclass

from adk_graph_memory.records import Modality


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb with its preposition: it ends where the object's name begins."""

    predicate: str
    pattern: re.Pattern[str]
    kind: str = "thing"
    state: bool = True
    """"live in" lasts, "moved to" begins"""
    negated: bool = False
    value: bool = False
    """whether what it states is in the words ("37 years old") and no entity"""
    only_kind: str = ""
    never_kind: str = ""


@dataclass(frozen=True, slots=True)
class Support:
    """What may stand between subject and verb."""

    pattern: re.Pattern[str]
    modality: Modality | None = None
    past: bool = False
    perfect: bool = False


def _support(words: str, modality: Modality | None = None, *, past: bool = False, perfect: bool = False) -> Support:
    return Support(re.compile(rf"\s*(?:{words})(?!\w)\s*", re.IGNORECASE), modality, past, perfect)


def _verb(words: str) -> re.Pattern[str]:
    return re.compile(rf"\s*\b(?:{words})", re.IGNORECASE)


SUPPORT = (
    _support(r"not (?:only|just)|\w+n['’]t (?:only|just)", "hypothetical"),
    _support(r"no longer|not|never|(?:do|does|did|have|has|am|are|is|was|were|had)n['’]t|stopped|quit", "negated"),
    _support(r"used to(?: be)?", past=True),
    _support(
        r"will|['’]ll|(?:am |are |is |['’]m |['’]re |['’]s )?(?:going to|gonna|about to|planning (?:to|on))", "planned"
    ),
    _support(
        r"(?:have |has |['’]ve |['’]s )?(?:plan|plans|intend|intends|decided|planned|hope|hopes) (?:to|on)", "planned"
    ),
    _support(
        r"might|may|could|would|should|must|['’]d|can|can['’]t|won['’]t|wouldn['’]t|couldn['’]t|want(?:s|ed)? to|wanna"
        r"|would (?:like|love) to|(?:like|love)(?= to)|to|need to|have to|has to|had to|tried to|considering"
        r"|(?:am|are|is|['’]m|['’]re|['’]s) (?:thinking|dreaming) (?:of|about)|almost|nearly|probably|maybe|perhaps",
        "hypothetical",
    ),
    _support(r"have|has|['’]ve|had|been|have been|has been|['’]ve been", perfect=True),
    _support(
        r"am|are|is|['’]m|['’]re|['’]s|be|was|were|got|just|now|still|currently|also|finally|recently|both|already"
        r"|officially|actually|really|temporarily|soon|do|did|does|all|only recently|myself"
    ),
)

_JOB = r"(?:(?:a|an|my|the)\s+(?:new\s+|first\s+)?(?:job|position|role)\s+)"
_AS = r"(?:as\s+(?:a|an|the)\s+(?:[\w\-]+\s+){1,4}?)?"
_NO_NOUN = r"(?!(?:some|any|a lot|it|that|this|them|him|her|you|me|all|every)\b)"
_NOUN_ENDS = (
    r"(?!(?:at|for|in|with|and|or|on|but|since|who|because|any|which|from|now|here|again|too|either|until|when"
    r"|where)\b)"
)
_NOUN = rf"(?P<phrase>{_NO_NOUN}[^\W\d_][\w\-]*(?:\s+{_NOUN_ENDS}[\w\-]+){{0,3}})"
_BACK = r"(?:\s+(?:back|down|up|over|out|alone|together|happily|again|here|there))?"
_HOW_MUCH = r"(?:\s+(?:part[- ]time|full[- ]time|remotely|freelance|again|here))?"
_LIVE = r"(?:live|lives|lived|living|reside|resides|resided|residing|based|settled)"
_MOVE = r"(?:move|moves|moved|moving|relocate|relocates|relocated|relocating)"
_WORK = r"(?:work|works|worked|working|employed)"
_LEAVE = r"(?:left|leave|leaving|quit|quitting)"
_AFTER_BE = r"(?:(?<=\bam )|(?<=\bis )|(?<=\bare )|(?<=['’]m )|(?<=['’]re )|(?<=['’]s ))"
_START = r"(?:start|starts|starting|started)"


def _home(words: str, *, begins: bool = False) -> Verb:
    return Verb("lives_in", _verb(words), "place", state=not begins, never_kind="organization" if begins else "")


def _job(words: str, *, state: bool = False, ends: bool = False, known: bool = False) -> Verb:
    kind = "organization"
    return Verb("works_at", _verb(words), kind, state=state, negated=ends, only_kind=kind if known else "")


VERBS = (
    _home(rf"{_LIVE}{_BACK}\s+in\s+"),
    _home(rf"{_MOVE}{_BACK}(?:\s+from\s+\w+)?\s+to\s+", begins=True),
    Verb(
        "lives_in",
        _verb(rf"{_MOVE}(?:\s+(?:away|out))?\s+(?:from|of)\s+"),
        state=False,
        negated=True,
        only_kind="place",
    ),
    _job(rf"{_WORK}{_HOW_MUCH}\s+{_AS}(?:at|for|by)\s+", state=True),
    _job(rf"{_START}\s+(?:(?:to\s+)?(?:work|working)\s+|{_JOB})?{_AS}at\s+"),
    _job(rf"{_START}\s+(?:to\s+)?(?:work|working)\s+{_AS}for\s+"),
    _job(rf"(?:got|found|have|took|accepted|{_START})?\s*{_JOB}{_AS}(?:at|with)\s+"),
    _job(r"(?:join|joins|joined|joining)\s+", known=True),
    _job(rf"(?:{_LEAVE}|lost)\s+{_JOB}(?:at|with)\s+", ends=True),
    _job(r"(?:resigned|resign|fired|laid off|dismissed)\s+(?:from|by)\s+", ends=True),
    _job(rf"{_LEAVE}\s+", ends=True, known=True),
    Verb("works_as", _verb(rf"{_WORK}\s+as\s+(?:a|an|the)\s+{_NOUN}"), "occupation"),
    Verb(
        "studies_at",
        _verb(r"(?:study|studies|studied|studying)(?:\s+[\w\-]+){0,3}?\s+at\s+(?:the\s+)?"),
        "organization",
    ),
    Verb("born_in", _verb(r"born(?:\s+and\s+raised)?\s+in\s+"), "place", state=False),
    Verb(
        "born_on",
        _verb(
            r"born\s+(?=(?:on\s+(?:the\s+)?\w+|in(?:\s+[^\W\d_]+)?)\s[^.]*?(?:19|20)\d\d\b"
            r"|in\s+(?:19|20)\d\d\b)"
        ),
        state=False,
        value=True,
    ),
    Verb("comes_from", _verb(rf"(?:comes?\s+|{_AFTER_BE})(?:originally\s+)?from\s+"), "place"),
    Verb("married_to", _verb(r"(?:married|marry|marrying)(?:\s+to)?\s+"), "person", state=False),
    Verb("allergic_to", _verb(rf"(?:\w+ly\s+)?allergic\s+to\s+{_NOUN}")),
    Verb("age", _verb(r"\d{1,3}(?:\s+years\s+old(?!\w)|(?=\s*[.!]*\s*$))"), value=True),
)

PARTICIPLES = frozenset({"lived", "resided", "worked", "studied"})
"""Forms that say it was so; whether it still is depends on what stands before them."""

_ES = r"(?:\W*(?:ahora|hoy|sí|bueno|pues|actualmente|y)[,.]?\s+)*(?:yo\s+)?"
_DE = (
    r"\W*(?:(?:ja|also|und|aber)[,.]?\s+)*"
    r"(?:ich\s+{0}|(?:jetzt|heute|inzwischen|seit\s+\w+(?:\s+\w+)?)\s+{0}\s+ich)"
)
_DE_SINCE = r"\s+(?P<no>nicht mehr\s+)?(?:jetzt\s+|seit\s+(?:\w+\.?\s+){1,4}?)?"


def _foreign(predicate: str, kind: str, words: str) -> tuple[str, str, re.Pattern[str]]:
    return predicate, kind, re.compile(words, re.IGNORECASE)


FOREIGN = {
    "es": (
        _foreign("lives_in", "place", rf"{_ES}(?P<no>ya no\s+)?(?:vivo|vivimos)\s+(?:ahora\s+)?en\s+"),
        _foreign("lives_in", "place", rf"{_ES}(?P<past>antes\s+(?:vivía|vivíamos))\s+en\s+"),
        _foreign("lives_in", "place", rf"{_ES}(?:me mudé|nos mudamos|me he mudado)\s+a\s+"),
        _foreign("works_at", "organization", rf"{_ES}(?P<no>ya no\s+)?trabaj(?:o|amos)\s+(?:ahora\s+)?para\s+"),
    ),
    "de": (
        _foreign("lives_in", "place", _DE.format("(?:wohne|lebe)") + _DE_SINCE + r"in\s+"),
        _foreign("lives_in", "place", _DE.format("bin") + r"\s+(?:\w+\s+){0,3}?nach\s+(?=\w+\s+(?:um)?gezogen)"),
        _foreign("works_at", "organization", _DE.format("arbeite") + _DE_SINCE + r"bei\s+"),
    ),
}
"""The same for the plainest sentences of other languages, from their beginning: predicate, kind of object, words."""
