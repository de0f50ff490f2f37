"""Why were these two facts taken for one, and why does this one end that one: the rules that need no model."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime

from adk_graph_memory.consolidation.claims import EndOperation
from adk_graph_memory.consolidation.spelling import normalize_words
from adk_graph_memory.language.detection import WIDE_RUN
from adk_graph_memory.records import (
    ExtractedFact,
    PlannedFact,
    Proposition,
    Statement,
    digest,
    fold_text,
    has_wide_character,
)
from adk_graph_memory.records.dates import Precision, compute_day_range, infer_precision, is_day_range_within
from adk_graph_memory.records.write_plan import STATES_PREDICATE


def make_proposition(fact: ExtractedFact, keys: Mapping[int, str], functional: Collection[str]) -> Proposition:
    """What an extracted fact says, about entities of the graph; of ``functional`` predicates there is one value."""
    return Proposition(
        text=fact.text,
        predicate=fact.predicate,
        subject=keys[fact.subject],
        object=keys[fact.object] if fact.object is not None else None,
        at=fact.at,
        speaker=fact.speaker,
        modality=fact.modality,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        topic=fact.topic,
        is_correction=fact.is_correction,
        is_functional=fact.predicate in functional,
        valid_from_precision=fact.valid_from_precision or infer_precision(fact.valid_from),
        valid_to_precision=fact.valid_to_precision or infer_precision(fact.valid_to),
    )


def has_ending_rule(said: Proposition) -> bool:
    """Whether it is of a kind that ends others by rule."""
    return said.is_functional or said.is_correction


def find_ending_operation(later: Proposition, earlier: Proposition) -> EndOperation | None:
    """How the one ends the other, if it was said later: a changed value, a plan come true or given up, a denial.

    Apart from corrections that deny the very thing and of plans that came true on their day, only of what there is one
    at a time: a subject may have two plans about one city, and give up one of them.
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
    return "SUPERSEDE" if later.modality == earlier.modality == "asserted" else None


def is_fulfillment(later: Proposition, earlier: Proposition) -> bool:
    """Whether the one asserts what the other plans: the same of the same pair, for the day that was planned."""
    if (later.modality, earlier.modality) != ("asserted", "planned") or later.object is None:
        return False
    is_one = (later.subject, later.predicate, later.object) == (earlier.subject, earlier.predicate, earlier.object)
    mine, theirs = next(_pair_day_ranges(later, earlier))
    return bool(is_one and mine and theirs) and (
        _is_compatible_range(mine, theirs) or _is_compatible_range(theirs, mine)
    )


def has_same_subject(one: Proposition, other: Proposition) -> bool:
    """Whether two may be wordings of one fact: they are of one subject, or of one pair."""
    return one.subject == other.subject or {one.subject, one.object} == {other.subject, other.object}


def has_common_content(one: Proposition, other: Proposition, names: Collection[str]) -> bool:
    """Whether they have more than a subject in common: whom else they speak of, or words beside the subject's names.

    Of two predicates it takes two words, and half of the shorter text; of one predicate a third of it, or half of it if
    that is a single word.
    """
    objects = (other.object, other.subject) if one.subject != other.subject else (other.object,)
    if one.object is not None and one.object in objects:
        return True
    known = set().union(*map(_split_into_parts, names))
    mine, theirs = _split_into_parts(one.text) - known, _split_into_parts(other.text) - known
    common, least = len(mine & theirs), min(len(mine), len(theirs))
    is_of_one = one.predicate == other.predicate
    return (is_of_one or common > 1) and (3 if is_of_one and common > 1 else 2) * common >= least


def _split_into_parts(text: str) -> set[str]:
    """The words of a text without its numbers, and of what is written without spaces every pair of characters."""
    apart = WIDE_RUN.sub(lambda run: f" {run[0]} ", fold_text(text))
    words = (word for word in normalize_words(apart) if not word.isdigit())
    return {
        part
        for word in words
        for part in (map("".join, itertools.pairwise(word)) if has_wide_character(word) else (word,))
    }


def is_different_fact(one: Proposition, other: Proposition) -> bool:
    """Whether no wording of one fact can say both: other objects or days, other numbers on each side, one denies."""
    objects = {one.object, other.object} - {None}
    is_pair_turned = (one.object, one.subject) == (other.subject, other.object)
    return (
        (len(objects) > 1 and not is_pair_turned)
        or not all(
            _is_compatible_range(mine, theirs) or _is_compatible_range(theirs, mine)
            for mine, theirs in _pair_day_ranges(one, other)
        )
        or not (
            _collect_numerals(one) <= _collect_numerals(other) or _collect_numerals(other) <= _collect_numerals(one)
        )
        or (one.modality == "negated") != (other.modality == "negated")
    )


def has_all_details(exact: Proposition, vague: Proposition) -> bool:
    """Whether the one has every number and, as exactly, every date of the other, and nothing in it is against that."""
    return (
        not is_different_fact(exact, vague)
        and _collect_numerals(vague) <= _collect_numerals(exact)
        and all(
            (mine or not theirs) and _is_compatible_range(mine, theirs)
            for mine, theirs in _pair_day_ranges(exact, vague)
        )
    )


def _collect_numerals(said: Proposition) -> set[str]:
    return set(said.numerals.split())


_DayRange = tuple[date, date] | None


def _pair_day_ranges(one: Proposition, other: Proposition) -> Iterator[tuple[_DayRange, _DayRange]]:
    """What each says of its beginning, and of its end: the first and the last day that are meant, if it says any."""
    yield (
        _get_day_range(one.valid_from, one.valid_from_precision),
        _get_day_range(other.valid_from, other.valid_from_precision),
    )
    ends = ((said.valid_to, said.valid_to_precision) for said in (one, other))
    mine, theirs = (_get_day_range(*end, is_end=True) for end in ends)
    yield mine, theirs


def _get_day_range(moment: datetime | None, precision: Precision | None, *, is_end: bool = False) -> _DayRange:
    return None if moment is None else compute_day_range(moment, precision, is_end=is_end)


def _is_compatible_range(exact: _DayRange, vague: _DayRange) -> bool:
    """Whether the one is a day, month or year within the other, or either is not known."""
    return not (exact and vague) or is_day_range_within(exact, vague)


def select_wording(said: Iterable[Proposition], refined: Collection[tuple[str, str]] = ()) -> Proposition:
    """The words that stand for all that say the same: the most exact ones, and of these the first said.

    Args:
        said: propositions that say the same.
        refined: (text, text) where the one is the more exact wording of the other.
    """
    known = sorted(said, key=lambda one: (one.at, one.text))
    vague = {less for _, less in refined}
    exact = [one for one in known if one.text not in vague] or known
    words = [set(one.comparison_text.split()) for one in exact]
    return next(one for one, mine in zip(exact, words, strict=True) if not any(mine < other for other in words))


def is_wording_contained(said: Proposition, others: Sequence[Proposition]) -> bool:
    """Whether one of the others has every word of what is said."""
    words = set(said.comparison_text.split())
    return any(words <= set(other.comparison_text.split()) for other in others)


def plan_statement(statement: Statement) -> PlannedFact:
    """A statement told to memory itself, as a fact that is its own source."""
    id = _hash_statement_id(statement.id) if statement.id else digest("told", fold_text(statement.text))
    told = Proposition(statement.text, STATES_PREDICATE, None, None, statement.at, speaker=statement.author)
    return PlannedFact(id=id, proposition=told, metadata=statement.metadata, is_direct=True)


def make_statement_id(id: str) -> str:
    """The memory id of a statement that was told under an id of its own."""
    return f"fact:{_hash_statement_id(id)}"


def _hash_statement_id(id: str) -> str:
    return digest("told as", id)
