"""Choose the facts of a profile: the best of each section first, within a budget, near-duplicates only once."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from math import log2

from adk_graph_memory.language.detection import load_stop_words
from adk_graph_memory.language.text import count_tokens, fold_text, join_lines
from adk_graph_memory.memory.profile.concepts import find_concept, stem_text, stem_word
from adk_graph_memory.records.extractions import Modality
from adk_graph_memory.records.facts import STATES_PREDICATE
from adk_graph_memory.records.results import (
    DISPUTE_NOTE,
    MACHINE_NOTES,
    SECTION_TITLES,
    SECTIONS,
    ProfileCandidate,
    ProfileItem,
    Section,
    describe_statement,
    format_item,
)

MODALITY_WEIGHTS: Mapping[Modality, float] = {"asserted": 1.0, "negated": 0.5, "reported": 0.0}
"""How much a fact counts by its modality; those of other modalities are plans and guesses, and in no profile."""
_SECTIONS_OF_DENIALS: frozenset[Section] = frozenset({"preferences", "instructions", "other"})
"""Sections where a denial tells something by itself; elsewhere mostly that something is no longer so."""
_LIVING_TYPES = frozenset({"person", "animal"})
_DUTY_STEMS = frozenset(stem_text("should must shall may always never"))
"""Of whom somebody says this to an agent about itself, that one instructs it."""
_INSTRUCTION_CUE = re.compile(r"\b(please|always|never|from now on|call me|don['’]t (ever )?call me)\b", re.IGNORECASE)
_PERSONAL_CUE = re.compile(r"\b(i|i['’]m|i['’]ve|my)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Placement:
    """A candidate with its section and its score there; the higher, the earlier it is told."""

    candidate: ProfileCandidate
    section: Section
    score: float


def place_candidates(
    candidates: Sequence[ProfileCandidate], speakers: Collection[str], *, with_denials: bool = False
) -> list[Placement]:
    """Place the candidates that belong into a profile, best first.

    Args:
        candidates: in any order.
        speakers: the names of those who speak as the user; only they instruct an agent.
        with_denials: also what is denied in sections where a denial mostly tells what is no longer so.
    """
    by_age = sorted(candidates, key=lambda candidate: (candidate.fact.at, candidate.fact.id))
    placements = []
    for rank, candidate in enumerate(by_age, 1):
        section, fit = _find_section(candidate, speakers)
        modality = candidate.fact.modality
        if section is None or modality not in MODALITY_WEIGHTS:
            continue
        if modality == "negated" and not with_denials and section not in _SECTIONS_OF_DENIALS:
            continue
        support = min(1.0, log2(1 + candidate.support) / 4)
        score = fit + MODALITY_WEIGHTS[modality] + support + rank / (3 * len(by_age))
        placements.append(Placement(candidate, section, score))
    return sorted(placements, key=lambda one: (-one.score, one.candidate.fact.id))


def _find_section(candidate: ProfileCandidate, speakers: Collection[str]) -> tuple[Section | None, float]:
    """Where a fact belongs, if anywhere, and how well it fits there."""
    fact, is_own_word = candidate.fact, candidate.fact.author in speakers and candidate.fact.modality != "reported"
    if candidate.is_in_own_words:
        is_wish = is_own_word and _INSTRUCTION_CUE.search(fact.text) is not None
        return "other", 1.0 if is_wish else 0.5 if _PERSONAL_CUE.search(fact.text) else 0.0
    concept, topic = find_concept(fact.predicate), find_concept(fact.topic or "")
    if candidate.place == "agent":
        is_instruction = not _DUTY_STEMS.isdisjoint(stem_text(fact.predicate)) or any(
            one is not None and one.section in ("instructions", "preferences") for one in (concept, topic)
        )
        return ("instructions", 1.0) if is_own_word and is_instruction else (None, 0.0)
    if topic is not None and topic.section == "instructions":
        concept = topic
    if concept is not None and concept.section == "instructions" and not is_own_word:
        concept = None
    is_living = candidate.other_type in _LIVING_TYPES
    if candidate.place == "object":
        is_relation = concept is not None and concept.section == "people"
        return ("people", 2 * concept.weight) if concept and is_relation else ("people" if is_living else "other", -0.5)
    if concept is not None:
        return concept.section, 1 + 2 * concept.weight
    if topic is not None and topic.section != "instructions" and not is_living:
        return topic.section, topic.weight
    return ("people" if is_living else "other"), 0.0


MAX_ITEM_TOKENS = 60
"""Tokens to which the text of one fact is cut."""
_MIN_CONTENT_WORDS = 2
"""Words below which a text that another one contains is no repeat of it: a name occurs in many."""
_DENIALS = frozenset(stem_text("no not never without nor neither"))
"""Stop words that no text loses without saying something else."""
_SINGLE_FRAME = re.compile(r"\b(?:my ([a-z' -]{2,40}?) (?:is|are) |i (?:live|reside) in |i work (?:at|for) )")
"""Of what somebody says in such words there is mostly one at a time, so what was said last counts."""


def select_items(
    candidates: Sequence[ProfileCandidate], *, speakers: Collection[str], token_budget: int
) -> tuple[ProfileItem, ...]:
    """Choose the items of a profile, section by section, each section's best first.

    Args:
        candidates: the current facts that concern the user, in any order.
        speakers: the names of those who speak as the user.
        token_budget: the maximum number of tokens of the profile's text.
    """
    placements = _drop_repeats(place_candidates(candidates, speakers))
    queues = {section: [one for one in placements if one.section == section] for section in SECTIONS}
    items: list[ProfileItem] = []
    tokens = 0
    for one in filter(None, chain.from_iterable(zip_longest(*queues.values()))):  # the sections take turns
        item = _describe_placement(one, names_speaker=len(speakers) > 1)
        is_first = not any(other.section == item.section for other in items)
        cost = count_tokens(f"{format_item(item)}\n") + is_first * count_tokens(f"{SECTION_TITLES[item.section]}:\n")
        if tokens + cost <= token_budget:
            items.append(item)
            tokens += cost
    return tuple(sorted(items, key=lambda item: SECTIONS.index(item.section)))


def _describe_placement(one: Placement, *, names_speaker: bool) -> ProfileItem:
    fact = one.candidate.fact
    text = _shorten_text(join_lines(fact.text))
    if one.candidate.is_in_own_words:
        text = describe_statement(text, fact, fact.author if names_speaker else None)
    note = "; ".join(filter(None, (MACHINE_NOTES.get(fact.origin), DISPUTE_NOTE if fact.is_disputed else "")))
    return ProfileItem(one.section, f"{text} ({note})" if note else text, fact)


def _shorten_text(text: str) -> str:
    """Cut a text to about :data:`MAX_ITEM_TOKENS`, at a space if there is one."""
    if len(text) <= MAX_ITEM_TOKENS or (tokens := count_tokens(text)) <= MAX_ITEM_TOKENS:
        return text
    short = text[: len(text) * MAX_ITEM_TOKENS // tokens]
    return f"{short.rpartition(' ')[0] or short} …"


# -- repeats ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Content:
    """What a fact says, for the comparison with others."""

    kind: tuple[str, str]
    """its section and modality"""
    relation: tuple[str | None, ...]
    text: str
    stems: frozenset[str]
    frame: str


def _drop_repeats(placements: Sequence[Placement]) -> list[Placement]:
    """Drop what says no more than a better one; of what people said in their own words, the last one counts."""
    by_age = sorted(placements, key=lambda one: one.candidate.fact.at, reverse=True)
    order = [one for one in placements if not one.candidate.is_in_own_words]
    order += [one for one in by_age if one.candidate.is_in_own_words]
    unique, contents = list[Placement](), list[_Content]()
    for one in order:
        content = _read_content(one)
        if not any(_is_repeat(content, other) for other in contents):
            unique.append(one)
            contents.append(content)
    return sorted(unique, key=lambda one: (-one.score, one.candidate.fact.id))


def _read_content(one: Placement) -> _Content:
    candidate, fact, frame = one.candidate, one.candidate.fact, ""
    has_relation = fact.subject and fact.object and fact.predicate != STATES_PREDICATE
    if candidate.is_in_own_words and (match := _SINGLE_FRAME.search(fold_text(fact.text))):
        frame = f"{fact.author}: {match[0]}"
    return _Content(
        kind=(one.section, fact.modality),
        relation=(fact.subject, fact.predicate, fact.object) if has_relation else (),
        text=fold_text(fact.text),
        stems=frozenset(stem_text(fact.text)) - _load_stop_stems(),
        frame=frame,
    )


@cache
def _load_stop_stems() -> frozenset[str]:
    return frozenset(map(stem_word, load_stop_words("en"))) - _DENIALS


def _is_repeat(one: _Content, other: _Content) -> bool:
    if one.kind != other.kind:
        return False
    fewer, more = sorted((one.stems, other.stems), key=len)
    is_nested = len(fewer) >= _MIN_CONTENT_WORDS and fewer <= more
    is_same_frame = bool(one.frame) and one.frame == other.frame
    is_same_relation = bool(one.relation) and one.relation == other.relation
    return one.text == other.text or is_nested or is_same_frame or is_same_relation
