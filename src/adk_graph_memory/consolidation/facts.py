"""Why were these two facts taken for one: the same subject, predicate and object, or the same words and numbers."""

from __future__ import annotations

from collections.abc import Mapping

from adk_graph_memory.records import ExtractedFact, PlannedFact, Statement, digest, folded


def signature_of(fact: ExtractedFact, keys: Mapping[int, str]) -> str:
    """What a fact says, whoever says it how often: two of one signature are one fact with more support.

    The words count, not only the object: facts that differ in a number or a date differ in their words.
    """
    about = keys[fact.object] if fact.object is not None else ""
    dates = "/".join(moment.isoformat() if moment else "" for moment in (fact.valid_from, fact.valid_to))
    words = folded(fact.text).rstrip(".!。！ ")
    return digest("fact", keys[fact.subject], fact.predicate, about, words, fact.modality, dates)


def planned(fact: ExtractedFact, keys: Mapping[int, str], known: Mapping[str, str]) -> PlannedFact:
    """The fact as it goes into the graph: as new, or as further support for one that says the same."""
    signature = signature_of(fact, keys)
    return PlannedFact(
        id=known.get(signature, signature),
        op="REINFORCE" if signature in known else "ADD",
        signature=signature,
        text=fact.text,
        predicate=fact.predicate,
        subject=keys[fact.subject],
        object=keys[fact.object] if fact.object is not None else None,
        sources=fact.sources,
        speaker=fact.speaker,
        at=fact.at,
        modality=fact.modality,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        topic=fact.topic,
    )


def direct(statement: Statement) -> PlannedFact:
    """A statement told to memory itself, as a fact that is its own source."""
    signature = _told_as(statement.id) if statement.id else digest("told", folded(statement.text))
    return PlannedFact(
        id=signature,
        op="ADD",
        signature=signature,
        text=statement.text,
        predicate="states",
        subject=None,
        object=None,
        sources=(),
        speaker=statement.author,
        at=statement.at,
        metadata=statement.metadata,
    )


def told_as(id: str) -> str:
    """The memory id of a statement that was told under an id of its own."""
    return f"fact:{_told_as(id)}"


def _told_as(id: str) -> str:
    return digest("told as", id)
