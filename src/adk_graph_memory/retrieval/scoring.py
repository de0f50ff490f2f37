"""What several legs have found goes in; the memories that answer the question come out, best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from adk_graph_memory.records import Share
from adk_graph_memory.retrieval.nearness import Nearness
from adk_graph_memory.retrieval.question import ParsedQuestion
from adk_graph_memory.retrieval.scorer import Scorer
from adk_graph_memory.retrieval.search_candidates import SearchCandidate
from adk_graph_memory.retrieval.weights import Weights

MAX_FACT_DISTANCE = 2.0
"""Deviations behind a turn up to which a fact is what the turn was found for."""


class ScoredMemory(NamedTuple):
    """A memory with its score; ``fact`` is the best of the facts that a turn stands in for."""

    id: str
    score: float
    scorer: Scorer
    fact_id: str | None = None

    @property
    def shares(self) -> tuple[Share, ...]:
        """What the score is made of, the greatest first."""
        return self.scorer.list_shares(self.id)


def score_candidates(
    candidates: Iterable[SearchCandidate],
    asked: ParsedQuestion,
    weights: Weights,
    *,
    near: Mapping[str, Nearness],
    gate: float = 1.0,
    now: float,
    empty: Set[str] = frozenset(),
) -> list[ScoredMemory]:
    """The candidates, best first.

    Args:
        candidates: all that the legs have found, each once.
        asked: what the question asks.
        weights: what each signal adds.
        near: how near in meaning each of them is; see :mod:`~.nearness`.
        gate: 0…1, how far the question's words are trusted, and all that goes by the graph with them.
        now: what held until then or longer holds.
        empty: ids of turns that only ask or acknowledge: they lend to their neighbours, and are no answers.
    """
    found = {one.id: one for one in candidates}
    tally = Scorer(found, weights, gate, empty)
    tally.score_matches(near)
    tally.score_neighbours()
    for one in found.values():
        if one.kind == "event":
            tally.score_turn(one, asked)
        else:
            tally.score_fact_date(one, asked)
    tally.score_sessions()
    if asked.is_present:
        tally.prefer_recent()
    tally.inherit_turn_scores()
    tally.replace_ended(now, is_past=asked.is_past, is_present=asked.is_present)
    return [ScoredMemory(id, score, tally) for id, score in tally.rank_scores()]


def deduplicate_memories(
    ranked: Iterable[ScoredMemory], found: Mapping[str, SearchCandidate], brief: float = 0.0
) -> list[ScoredMemory]:
    """A fact and the turns it rests on count once: whichever stands lower is left out; two facts of one turn are two.

    A turn gives its place to a fact that says it about as well in fewer words. Otherwise it names the best of the facts
    left out for it, if that stands near: it may say more than the turn does.

    Args:
        ranked: best first.
        found: the candidates by id.
        brief: deviations behind a turn up to which a fact of no words at all would take its place, one of half as
            many words half of that.
    """
    kept: dict[str, ScoredMemory] = {}
    told: set[str] = set()
    for one in ranked:
        said = found[one.id].turn_ids
        turns = [turn for turn in said if turn in kept and kept[turn].id == turn]
        if turns:
            first = kept[turns[0]]
            shorter = 1.0 - found[one.id].text_length / max(1, found[first.id].text_length)
            if first.score - one.score <= brief * shorter:
                kept[turns[0]] = one._replace(score=first.score)
                told.update(said)
                continue
            for turn in turns:
                if kept[turn].fact_id is None and kept[turn].score - one.score <= MAX_FACT_DISTANCE:
                    kept[turn] = kept[turn]._replace(fact_id=one.id)
        elif one.id not in told:
            kept[one.id] = one
            told.update(said)
    return list(kept.values())
