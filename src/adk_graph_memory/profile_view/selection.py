"""Choose the facts of a profile: the best of each section first, near repeats once, as many as the budget takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from adk_graph_memory.language.detection import load_stop_words
from adk_graph_memory.language.wording import join_lines
from adk_graph_memory.profile_view.concepts import stem_text, stem_word
from adk_graph_memory.profile_view.placement import Placement, place_candidates
from adk_graph_memory.records import SECTION_TITLES, SECTIONS, ProfileCandidate, ProfileItem, count_tokens, fold_text
from adk_graph_memory.records.profile import describe_statement, format_item
from adk_graph_memory.records.results import MACHINE_NOTES
from adk_graph_memory.records.write_plan import STATES_PREDICATE

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
    for one in _take_turns(list(queues.values())):
        item = _make_item(one, names_speaker=len(speakers) > 1)
        is_first = not any(other.section == item.section for other in items)
        cost = count_tokens(f"{format_item(item)}\n") + is_first * count_tokens(f"{SECTION_TITLES[item.section]}:\n")
        if tokens + cost <= token_budget:
            items.append(item)
            tokens += cost
    return tuple(sorted(items, key=lambda item: SECTIONS.index(item.section)))


def _take_turns(queues: Sequence[Sequence[Placement]]) -> Iterator[Placement]:
    for place in range(max(map(len, queues), default=0)):
        yield from (queue[place] for queue in queues if place < len(queue))


def _make_item(one: Placement, *, names_speaker: bool) -> ProfileItem:
    fact = one.candidate.fact
    text = _shorten_text(join_lines(fact.text))
    if one.candidate.is_statement:
        text = describe_statement(text, fact, fact.author if names_speaker else None)
    note = MACHINE_NOTES.get(fact.origin)
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
    order = [one for one in placements if not one.candidate.is_statement]
    order += [one for one in by_age if one.candidate.is_statement]
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
    if candidate.is_statement and (match := _SINGLE_FRAME.search(fold_text(fact.text))):
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
