"""Why were these two facts taken for one, and why does this one end that one: the rules that need no model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from adk_graph_memory.consolidation.timeline import Ending
from adk_graph_memory.records import (
    ExtractedFact,
    PlannedFact,
    Proposition,
    Statement,
    digest,
    folded,
)
from adk_graph_memory.records.plan import STATES


def proposition_of(fact: ExtractedFact, keys: Mapping[int, str], functional: Collection[str]) -> Proposition:
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
        correction=fact.correction,
        is_single=fact.predicate in functional,
    )


def may_end(said: Proposition) -> bool:
    """Whether it is of a kind that ends others by rule."""
    return said.is_single or said.correction


def ending(later: Proposition, earlier: Proposition) -> Ending | None:
    """How the one ends the other, if it was said later: a changed value, a plan come true or given up, a denial.

    Apart from corrections that deny the very thing, only of what there is one at a time: a subject may have two plans
    about one city, and give up one of them.
    """
    if later.subject is None or (later.subject, later.predicate) != (earlier.subject, earlier.predicate):
        return None
    if later.correction and (later.modality, earlier.modality) == ("negated", "asserted"):
        return "RETRACT" if later.value == earlier.value else None
    if not (later.is_single and earlier.is_single):
        return None
    if later.value == earlier.value:
        ends = {"asserted": ("planned", "negated"), "negated": ("planned", "asserted")}.get(later.modality, ())
        return "SUPERSEDE" if earlier.modality in ends else None
    return "SUPERSEDE" if later.modality == earlier.modality == "asserted" else None


def wording(said: Iterable[Proposition], refined: Collection[tuple[str, str]] = ()) -> Proposition:
    """The words that stand for all that say the same: the most exact ones, and of these the first said.

    Args:
        said: propositions that say the same.
        refined: (text, text) where the one is the more exact wording of the other.
    """
    known = sorted(said, key=lambda one: (one.at, one.text))
    vague = {less for _, less in refined}
    exact = [one for one in known if one.text not in vague] or known
    words = [set(one.words.split()) for one in exact]
    return next(one for one, mine in zip(exact, words, strict=True) if not any(mine < other for other in words))


def is_contained(said: Proposition, others: Sequence[Proposition]) -> bool:
    """Whether one of the others has every word of what is said."""
    words = set(said.words.split())
    return any(words <= set(other.words.split()) for other in others)


def direct(statement: Statement) -> PlannedFact:
    """A statement told to memory itself, as a fact that is its own source."""
    id = _told_as(statement.id) if statement.id else digest("told", folded(statement.text))
    told = Proposition(statement.text, STATES, None, None, statement.at, speaker=statement.author)
    return PlannedFact(id=id, proposition=told, metadata=statement.metadata, is_direct=True)


def told_as(id: str) -> str:
    """The memory id of a statement that was told under an id of its own."""
    return f"fact:{_told_as(id)}"


def _told_as(id: str) -> str:
    return digest("told as", id)
