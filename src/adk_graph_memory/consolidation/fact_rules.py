"""Decide by rule, without a model, whether two facts are the same and whether one ends the other."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Literal

from adk_graph_memory.language.dates import Precision, compute_day_range, is_day_range_within
from adk_graph_memory.language.detection import WIDE_RUN
from adk_graph_memory.language.spelling import normalize_words
from adk_graph_memory.language.text import digest, fold_text, has_wide_character
from adk_graph_memory.records.extractions import ExtractedFact, Source
from adk_graph_memory.records.facts import STATES_PREDICATE, DirectFact, Fact, FactWrite, Proposition
from adk_graph_memory.records.turns import Statement

EndOperation = Literal["SUPERSEDE", "RETRACT"]
_OPPOSITES = tuple(
    (frozenset(these.split()), frozenset(those.split()))
    for these, those in (
        ("likes liked loves loved enjoys prefers wants", "dislikes disliked hates hated avoids detests fears"),
        ("buys bought purchased owns owned", "sells sold lost"),
        ("married engaged", "divorced separated"),
        ("starts started begins began begun joins joined", "stops stopped quits quit ends ended leaves left finished"),
        ("lends lent", "borrows borrowed"),
        ("wins won gains gained", "loses lost"),
        ("accepts accepted agrees agreed allows allowed", "declines declined refuses refused rejects rejected forbids"),
        ("arrives arrived enters entered", "departs departed leaves left"),
        ("opens opened open", "closes closed"),
        ("increases increased raises raised", "decreases decreased lowers lowered"),
        ("passes passed", "fails failed"),
        ("can", "cannot"),
        ("to", "from"),
        ("has", "lacks"),
    )
)
"""Words for opposites; predicates are English whatever the language of the facts."""
_DENIALS = frozenset(("no", "not", "never", "without"))


def resolve_proposition(
    fact: ExtractedFact, keys: Mapping[int, str], functional_predicates: Collection[str]
) -> Proposition:
    """Resolve a fact to a proposition; ``keys`` are entity keys by reference; functional predicates have one value."""
    return Proposition(
        subject=keys[fact.subject],
        object=keys[fact.object] if fact.object is not None else None,
        at=fact.at,
        speaker=fact.speaker,
        is_functional=fact.predicate in functional_predicates,
        **fact.wording,
    )


def find_ending_operation(later: Proposition, earlier: Proposition) -> EndOperation | None:
    """Return how the later proposition ends the earlier one: a new value, a plan carried out or dropped, or a denial.

    Rules end only what has one value at a time, for a subject may have two plans about one city and drop one of them.
    Exceptions are corrections that deny the earlier fact itself, and plans carried out on their day. Other words with
    the same quantities may be the same value, which rules cannot tell.
    """
    if later.subject is None or (later.subject, later.predicate) != (earlier.subject, earlier.predicate):
        return None
    if later.is_correction and (later.modality, earlier.modality) == ("negated", "asserted"):
        return "RETRACT" if later.value == earlier.value else None
    if is_fulfillment(later, earlier):
        return "SUPERSEDE"
    if not (later.is_functional and earlier.is_functional):
        return None
    if later.value == earlier.value:
        ends = {"asserted": ("planned", "negated"), "negated": ("planned", "asserted")}.get(later.modality, ())
        return "SUPERSEDE" if earlier.modality in ends else None
    if later.may_have_value_of(earlier):
        return None
    return "SUPERSEDE" if later.modality == earlier.modality == "asserted" else None


def explain_ending(later: Proposition, earlier: Proposition) -> str:
    """Say by which rule the later proposition ends the earlier one; empty if none does."""
    op = find_ending_operation(later, earlier)
    if op == "RETRACT":
        return "it was denied: it was never so"
    if op is None:
        return ""
    if is_fulfillment(later, earlier):
        return "the plan was carried out"
    return "a plan came true or fell through" if later.value == earlier.value else f"one {later.predicate!r} at a time"


def is_fulfillment(later: Proposition, earlier: Proposition) -> bool:
    """Whether the later one asserts what the earlier one plans: same subject, predicate, object and day."""
    if (later.modality, earlier.modality) != ("asserted", "planned") or later.object is None:
        return False
    is_same = (later.subject, later.predicate, later.object) == (earlier.subject, earlier.predicate, earlier.object)
    mine, theirs = next(_pair_day_ranges(later, earlier))
    return bool(is_same and mine and theirs) and (
        _is_compatible_range(mine, theirs) or _is_compatible_range(theirs, mine)
    )


def has_same_subject(proposition: Proposition, other: Proposition) -> bool:
    """Whether two may be wordings of one fact: they have the same subject, or the same subject and object swapped."""
    is_same_pair = {proposition.subject, proposition.object} == {other.subject, other.object}
    return proposition.subject == other.subject or is_same_pair


def has_common_object(proposition: Proposition, other: Proposition) -> bool:
    """Whether two propositions speak of the same somebody or something beside their subject."""
    objects = (other.object, other.subject) if proposition.subject != other.subject else (other.object,)
    return proposition.object is not None and proposition.object in objects


def has_common_words(proposition: Proposition, other: Proposition, names: Collection[str]) -> bool:
    """Whether two propositions share words other than the subject's ``names``.

    If the predicates differ, they must share two words and half of the shorter text. If they agree, a third of it is
    enough, or half of it if that is a single word.
    """
    name_parts = set().union(*map(_split_into_parts, names))
    mine, theirs = _split_into_parts(proposition.text) - name_parts, _split_into_parts(other.text) - name_parts
    common, shorter = len(mine & theirs), min(len(mine), len(theirs))
    is_same_predicate = proposition.predicate == other.predicate
    return (is_same_predicate or common > 1) and (3 if is_same_predicate and common > 1 else 2) * common >= shorter


def _split_into_parts(text: str) -> set[str]:
    """Split a text into words without numbers; text written without spaces into pairs of characters."""
    spaced = WIDE_RUN.sub(lambda run: f" {run[0]} ", fold_text(text))
    words = (word for word in normalize_words(spaced) if not word.isdigit())
    return {
        part
        for word in words
        for part in (map("".join, itertools.pairwise(word)) if has_wide_character(word) else (word,))
    }


def is_different_fact(proposition: Proposition, other: Proposition) -> bool:
    """Whether the two cannot state one fact: objects, days or amounts differ, or one says the opposite."""
    objects = {proposition.object, other.object} - {None}
    is_swapped = (proposition.object, proposition.subject) == (other.subject, other.object)
    normal, other_normal = proposition.normal_text, other.normal_text
    return (
        (len(objects) > 1 and not is_swapped)
        or not all(
            _is_compatible_range(mine, theirs) or _is_compatible_range(theirs, mine)
            for mine, theirs in _pair_day_ranges(proposition, other)
        )
        or not (normal.has_quantities_of(other_normal) or other_normal.has_quantities_of(normal))
        or (proposition.modality == "negated") != (other.modality == "negated")
        or _are_opposite(proposition.predicate, other.predicate)
    )


def _are_opposite(predicate: str, other: str) -> bool:
    """Whether the words in which two predicates differ say the opposite, or only one of them denies."""
    words, other_words = set(predicate.split("_")), set(other.split("_"))
    mine, theirs = words - other_words, other_words - words
    return any(
        (mine & these and theirs & those) or (mine & those and theirs & these) for these, those in _OPPOSITES
    ) or bool(_DENIALS & mine) != bool(_DENIALS & theirs)


def has_all_details(exact: Proposition, vague: Proposition) -> bool:
    """Whether ``exact`` has the quantities and dates of ``vague``, dates as precisely, and nothing contradicts."""
    return (
        not is_different_fact(exact, vague)
        and exact.normal_text.has_quantities_of(vague.normal_text)
        and all(
            (mine or not theirs) and _is_compatible_range(mine, theirs)
            for mine, theirs in _pair_day_ranges(exact, vague)
        )
    )


_DayRange = tuple[date, date] | None


def _pair_day_ranges(proposition: Proposition, other: Proposition) -> Iterator[tuple[_DayRange, _DayRange]]:
    """Yield both day ranges of the beginning, then both of the end: first and last day, or None if unknown."""
    yield (
        _get_day_range(proposition.valid_from, proposition.valid_from_precision),
        _get_day_range(other.valid_from, other.valid_from_precision),
    )
    yield (
        _get_day_range(proposition.valid_to, proposition.valid_to_precision, is_end=True),
        _get_day_range(other.valid_to, other.valid_to_precision, is_end=True),
    )


def _get_day_range(moment: datetime | None, precision: Precision | None, *, is_end: bool = False) -> _DayRange:
    return None if moment is None else compute_day_range(moment, precision, is_end=is_end)


def _is_compatible_range(exact: _DayRange, vague: _DayRange) -> bool:
    """Whether the exact range lies within the vague one, or either is unknown."""
    return not (exact and vague) or is_day_range_within(exact, vague)


def select_wording(wordings: Iterable[Proposition], refinements: Collection[tuple[str, str]] = ()) -> Proposition:
    """Choose the wording that stands for a fact: the most exact, and of these the first said.

    Args:
        wordings: propositions that say the same.
        refinements: pairs of an exact text and the vaguer text it replaces.
    """
    ordered = sorted(wordings, key=lambda wording: (wording.at, wording.text))
    vague_texts = {vague for _, vague in refinements}
    candidates = [wording for wording in ordered if wording.text not in vague_texts] or ordered
    if len(candidates) == 1:
        return candidates[0]
    words = [set(wording.comparison_text.split()) for wording in candidates]
    return next(
        wording for wording, mine in zip(candidates, words, strict=True) if not any(mine < theirs for theirs in words)
    )


def is_wording_contained(wording: Proposition, others: Sequence[Proposition]) -> bool:
    """Whether one of the others has every word of this wording."""
    words = set(wording.comparison_text.split())
    return any(words <= set(other.comparison_text.split()) for other in others)


def is_machine_said(sources: Collection[Source]) -> bool:
    """Whether agents and tools alone say it; not if nobody does."""
    return bool(sources) and all(source.is_machine for source in sources)


def is_repetition(wording: Proposition, other: Proposition) -> bool:
    """Whether the other states the same of the same subject in words that contain this wording's."""
    mine, theirs = ((one.subject, one.predicate, one.modality) for one in (wording, other))
    return mine == theirs and is_wording_contained(wording, [other])


def plan_statement(statement: Statement) -> FactWrite:
    """Plan a fact for a statement made directly to memory; the fact is its own source."""
    id = _hash_statement_id(statement.id) if statement.id else digest("told", fold_text(statement.text))
    proposition = Proposition(
        text=statement.text,
        predicate=STATES_PREDICATE,
        subject=None,
        object=None,
        at=statement.at,
        speaker=statement.author,
        topic=statement.topic,
    )
    direct = DirectFact(statement.metadata, statement.replaces_metadata, statement.expires_at, statement.origin)
    return FactWrite(Fact(id, proposition, extractor="direct"), direct=direct)


def compute_statement_memory_id(id: str) -> str:
    """Return the memory id of a statement that was given its own id."""
    return f"fact:{_hash_statement_id(id)}"


def _hash_statement_id(id: str) -> str:
    return digest("told as", id)
