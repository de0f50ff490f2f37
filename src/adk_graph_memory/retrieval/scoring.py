"""Score the candidates of all retrieval sources, and leave each statement once: as a turn or as a fact."""

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
"""A fact at most this many deviations below its turn is what the turn was found for."""


class ScoredMemory(NamedTuple):
    """A memory with its score; ``fact_id`` is the best of the facts that a turn stands for."""

    id: str
    score: float
    scorer: Scorer
    fact_id: str | None = None

    @property
    def shares(self) -> tuple[Share, ...]:
        """What each signal adds to the score, the largest first."""
        return self.scorer.list_shares(self.id)


def score_candidates(
    candidates: Iterable[SearchCandidate],
    question: ParsedQuestion,
    weights: Weights,
    *,
    nearness: Mapping[str, Nearness],
    word_trust: float = 1.0,
    now: float,
    empty_ids: Set[str] = frozenset(),
) -> list[ScoredMemory]:
    """Score the candidates; best first.

    Args:
        candidates: what all retrieval sources found, each once.
        question: what the question asks.
        weights: the weight of each signal.
        nearness: how near in meaning each candidate is; see :mod:`~.nearness`.
        word_trust: 0 to 1, how far the question's words, and all signals of the graph, are trusted.
        now: a fact that ends at this time or later still holds.
        empty_ids: turns that only ask or acknowledge: they lend to their neighbours but are no answers.
    """
    by_id = {candidate.id: candidate for candidate in candidates}
    scorer = Scorer(by_id, weights, word_trust, empty_ids)
    scorer.score_matches(nearness)
    scorer.score_neighbours()
    for candidate in by_id.values():
        if candidate.kind == "event":
            scorer.score_turn(candidate, question)
        else:
            scorer.score_fact_date(candidate, question)
    scorer.score_sessions()
    if question.is_present:
        scorer.prefer_recent()
    scorer.inherit_turn_scores()
    scorer.replace_ended(now, is_past=question.is_past, is_present=question.is_present)
    return [ScoredMemory(id, score, scorer) for id, score in scorer.rank_scores()]


def deduplicate_memories(
    memories: Iterable[ScoredMemory], candidates: Mapping[str, SearchCandidate], brief: float = 0.0
) -> list[ScoredMemory]:
    """Keep the higher ranked of a fact and the turns it rests on; two facts of one turn are both kept.

    A turn gives its rank to a fact that says it about as well in fewer words. Otherwise the turn keeps the id of the
    best fact that it displaced, if that is near: the fact may say more than the turn does.

    Args:
        memories: best first.
        candidates: by id.
        brief: deviations below a turn up to which a fact of no words at all would take its rank; a fact of half as many
            words takes it up to half of that.
    """
    results: dict[str, ScoredMemory] = {}
    covered_ids: set[str] = set()
    for memory in memories:
        turn_ids = candidates[memory.id].turn_ids
        turns = [turn for turn in turn_ids if turn in results and results[turn].id == turn]
        if turns:
            best_turn = results[turns[0]]
            brevity = 1.0 - candidates[memory.id].text_length / max(1, candidates[best_turn.id].text_length)
            if best_turn.score - memory.score <= brief * brevity:
                results[turns[0]] = memory._replace(score=best_turn.score)
                covered_ids.update(turn_ids)
                continue
            for turn in turns:
                if results[turn].fact_id is None and results[turn].score - memory.score <= MAX_FACT_DISTANCE:
                    results[turn] = results[turn]._replace(fact_id=memory.id)
        elif memory.id not in covered_ids:
            results[memory.id] = memory
            covered_ids.update(turn_ids)
    return list(results.values())
