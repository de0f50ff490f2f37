"""What several legs have found goes in; the memories that answer the question come out, best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from adk_graph_memory.records import Share
from adk_graph_memory.retrieval.candidates import Background, Candidate
from adk_graph_memory.retrieval.question import Asked
from adk_graph_memory.retrieval.tally import Tally
from adk_graph_memory.retrieval.weights import Weights

NEAR = 2.0
"""Deviations behind a turn up to which a fact is what the turn was found for."""


class Scored(NamedTuple):
    """A memory with its score; ``fact`` is the best of the facts that a turn stands in for."""

    id: str
    score: float
    tally: Tally
    fact: str | None = None

    @property
    def shares(self) -> tuple[Share, ...]:
        """What the score is made of, the greatest first."""
        return self.tally.shares_of(self.id)


def scored(
    candidates: Iterable[Candidate],
    asked: Asked,
    weights: Weights,
    *,
    background: Background | None = None,
    gate: float = 1.0,
    now: float,
    empty: Set[str] = frozenset(),
) -> list[Scored]:
    """The candidates, best first.

    Args:
        candidates: all that the legs have found, each once.
        asked: what the question asks.
        weights: what each signal adds.
        background: what a vector's score is measured against.
        gate: 0…1, how far the question's words are trusted, and all that goes by the graph with them.
        now: what held until then or longer holds.
        empty: ids of turns that only ask or acknowledge: they lend to their neighbours, and are no answers.
    """
    found = {one.id: one for one in candidates}
    tally = Tally(found, weights, gate, empty)
    tally.match(background or Background())
    tally.pass_on()
    for one in found.values():
        if one.kind == "event":
            tally.weigh(one, asked)
        else:
            tally.date(one, asked)
    tally.fit_sessions()
    tally.share_entities()
    if asked.is_present:
        tally.prefer_recent()
    tally.rest_facts_on_turns()
    tally.end(now, is_past=asked.is_past, is_present=asked.is_present)
    return [Scored(id, score, tally) for id, score in tally.ranked()]


def distinct(ranked: Iterable[Scored], evidence: Mapping[str, Sequence[str]]) -> list[Scored]:
    """A fact and the turns it rests on count once: whichever stands lower is left out; two facts of one turn are two.

    A turn names the best of the facts left out for it, if that stands near: it may say more than the turn does.

    Args:
        ranked: best first.
        evidence: id of a fact → ids of the turns it rests on.
    """
    kept: dict[str, Scored] = {}
    told: set[str] = set()
    for one in ranked:
        said = evidence.get(one.id, ())
        turns = [turn for turn in said if turn in kept]
        if turns:
            for turn in turns:
                if kept[turn].fact is None and kept[turn].score - one.score <= NEAR:
                    kept[turn] = kept[turn]._replace(fact=one.id)
        elif one.id not in told:
            kept[one.id] = one
            told.update(said)
    return list(kept.values())
