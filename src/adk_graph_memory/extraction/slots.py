"""A sentence and the names in it go in; what it says outright of somebody's home, work, numbers and the like comes out.

Only the plainest forms are read: the subject is the speaker or a name, right before the verb, and a place or an
employer is a name, right behind it. Whatever else stands between them, the sentence stays an ordinary statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from adk_graph_memory.extraction import modality
from adk_graph_memory.extraction.verbs import FOREIGN, PARTICIPLES, SUPPORT, VERBS, Verb
from adk_graph_memory.records import Modality

Span = tuple[int, int, int]
"""Where a name stands (start, end) and the entity it stands for."""

FUNCTIONAL = frozenset(
    {"lives_in", "works_at", "phone_number", "email", "address", "born_on", "born_in", "age", "married_to"}
)
"""Predicates that have one value at a time: a new one ends the one before it."""

_CLAUSE = re.compile(
    r"\s*[,;:—–]\s+(?:(?:and|but|so|because)\s+)?|\s+(?:and|but|so|because|although|though|while|where)\s+|\s+-\s+"
)
_LEAD = re.compile(
    r"[\"'(\s]*(?:(?:and|but|so|also|then|now|today|actually|well|oh|yes|no|ok|okay|anyway|by the way|finally|currently"
    r"|recently|these days|at the moment|until recently|originally|maybe|perhaps|probably)[,.]?\s+)*"
    r"(?:(?:since|in|on|from|last|next|this|until)\s+(?!the\b|my\b)\w+(?:\s+\w+){0,2}?,?\s+)?(?=\S)",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"(?:I|we)(?=['’\s])", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“”„«»「」]")
_OTHERS_WORDS = re.compile(r"\b(?:said|says|told)\b[^.]{0,20}[:\"“„]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a sentence says outright: of whom (None: the speaker), what, and in which way."""

    predicate: str
    subject: int | None = None
    object: int | None = None
    phrase: str = ""
    """the object's words, where it is no name"""
    kind: str = "thing"
    modality: Modality = "asserted"
    past: bool = False
    clause: tuple[int, int] = (0, 0)
    dated: bool = False
    """whether a day beside the verb is when it began (or, denied, ended)"""


def claims(sentence: str, spans: Sequence[Span], language: str, kinds: dict[int, str]) -> list[Claim]:
    """The claims of a sentence, if it makes any that nobody could mistake.

    Args:
        sentence: what was said.
        spans: the names in it.
        language: of the sentence; other than English, German and Spanish have none.
        kinds: what is known of the kind of an entity (a company is not moved to).
    """
    if len(sentence) > 1_000 or modality.is_fiction(sentence):
        return []
    if _QUOTED.search(sentence) or _OTHERS_WORDS.search(sentence):
        return []
    if language in FOREIGN:
        return list(_foreign(sentence, spans, language))
    return list(_english(sentence, spans, kinds)) if language == "en" else []


def _foreign(sentence: str, spans: Sequence[Span], language: str) -> Iterator[Claim]:
    for predicate, kind, pattern in FOREIGN[language]:
        match = pattern.match(sentence)
        named = match and next((span for span in spans if span[0] == match.end()), None)
        if match and named and not modality.is_hypothetical(sentence) and not modality.is_planned(sentence):
            past = bool(match.groupdict().get("past"))
            denied = bool(match.groupdict().get("no"))
            if denied or not modality.is_denied(modality.first_clause(sentence)):
                way: Modality = "negated" if denied else "asserted"
                yield Claim(predicate, None, named[2], "", kind, way, past, (0, len(sentence)), True)


def _english(sentence: str, spans: Sequence[Span], kinds: dict[int, str]) -> Iterator[Claim]:
    report = modality.REPORT.match(sentence)
    start = report.end() if report else 0
    supposed = modality.is_hypothetical(sentence)
    subject: tuple[int | None] | None = None
    for first, last, joined in _clauses(sentence, start):
        place, here = _subject(sentence, first, last, spans)
        if here is None and joined and subject is not None:
            place, here = first, subject
        elif here is not None and here != (None,) and joined == "and" and subject is None:
            here = None
        found = [] if here is None or (report and here == (None,)) else _claims(sentence, place, last, spans, kinds)
        subject = here if found else None
        for claim in found:
            way: Modality = "reported" if report else "hypothetical" if supposed else claim.modality
            yield replace(claim, subject=here[0] if here else None, modality=way, clause=(first, last))


def _clauses(sentence: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Start and end of each clause, and what joins it to the one before ("and", ", and")."""
    joined = ""
    for match in _CLAUSE.finditer(sentence, start):
        yield start, match.start(), joined
        start, joined = match.end(), match[0].strip() if match[0].strip().endswith(("and", "but")) else ""
    yield start, len(sentence), joined


def _subject(sentence: str, first: int, last: int, spans: Sequence[Span]) -> tuple[int, tuple[int | None] | None]:
    """Where the verb begins and whose it is: the speaker's, a name's; or None where that cannot be told."""
    lead = _LEAD.match(sentence, first, last)
    for place in dict.fromkeys((lead.end() if lead else first, first)):
        if person := _FIRST_PERSON.match(sentence, place, last):
            return person.end(), (None,)
        for start, end, ref in spans:
            if start == place and end < last:
                return end, (ref,)
    return first, None


def _claims(sentence: str, place: int, last: int, spans: Sequence[Span], kinds: dict[int, str]) -> list[Claim]:
    """What is claimed by the verb that begins here, with what stands before it ("no longer", "used to", "will")."""
    way: Modality = "asserted"
    past = has_been = False
    while support := next((s for s in SUPPORT if s.pattern.match(sentence, place, last)), None):
        match = support.pattern.match(sentence, place, last)
        if match is None or match.end() == place:
            break
        place = match.end()
        past, has_been = past or support.past, has_been or support.perfect
        if support.modality and way in ("asserted", "planned"):
            way = "hypothetical" if {way, support.modality} == {"planned", "negated"} else support.modality
    found: dict[str, Claim] = {}
    for verb in VERBS:
        match = verb.pattern.match(sentence, place, last)
        named = (
            _object(sentence, match, [s for s in spans if kinds.get(s[2]) != "thing"], last, verb) if match else None
        )
        if match is None or named is None or (verb.only_kind and kinds.get(named.object or -1) != verb.only_kind):
            continue
        if verb.never_kind and kinds.get(named.object or -1) == verb.never_kind:
            continue
        claim = _with_tense(named, verb, match[0].split()[0].lower(), way, past, has_been, sentence[place:last])
        if claim:
            found.setdefault(claim.predicate, claim)
    return list(found.values())


def _object(sentence: str, match: re.Match[str], spans: Sequence[Span], last: int, verb: Verb) -> Claim | None:
    if "phrase" in match.groupdict():
        return Claim(verb.predicate, phrase=match["phrase"].strip(), kind=verb.kind)
    if verb.value:
        return Claim(verb.predicate)
    for start, end, ref in spans:
        if start == match.end() and end <= last:
            return Claim(verb.predicate, object=ref, kind=verb.kind)
    return None


def _with_tense(
    claim: Claim, verb: Verb, word: str, way: Modality, past: bool, has_been: bool, clause: str
) -> Claim | None:
    """The claim as its verb's form has it, or None where the form leaves open whether it is still so."""
    if verb.negated:
        way = "negated" if way == "asserted" else "hypothetical"
    if word in PARTICIPLES and verb.state and not past and way == "asserted":
        if has_been and not re.search(r"\b(?:since|for)\b", clause):
            return None
        past = not has_been
    if not verb.state and word.endswith("ing") and way == "asserted" and not has_been:
        way = "planned"
    if way == "planned" and past:
        return None
    return replace(claim, modality=way, past=past and way == "asserted", dated=not verb.state)
