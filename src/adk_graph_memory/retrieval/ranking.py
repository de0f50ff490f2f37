"""What the first statement of a search has found goes in; the memories that answer come out, best first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from adk_graph_memory.embeddings import QuestionEmbedding
from adk_graph_memory.retrieval import smalltalk
from adk_graph_memory.retrieval.coverage import estimate_answer_likelihood, measure_word_trust
from adk_graph_memory.retrieval.nearness import Nearness, measure_nearness
from adk_graph_memory.retrieval.question import ParsedQuestion
from adk_graph_memory.retrieval.scoring import ScoredMemory, deduplicate_memories, score_candidates
from adk_graph_memory.retrieval.search_candidates import ScoreBaseline, SearchCandidate
from adk_graph_memory.retrieval.weights import Weights

SCORE_DECAY = 8.0
"""Deviations behind the best memory after which a score is e times smaller."""


def make_results(found: Sequence[ScoredMemory], support: float) -> list[dict[str, Any]]:
    """What the second statement takes: ids, and scores between 0 and 1, the best one as likely as anything answers."""
    best = found[0].score if found else 0.0
    return [
        {"id": one.id, "fact": one.fact_id, "score": support * math.exp((one.score - best) / SCORE_DECAY)}
        for one in found
    ]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates and all that is told of them, whatever weights they are ranked by.

    ``support`` is how likely anything answers the question at all, 0 to 1.
    """

    parsed_question: ParsedQuestion
    candidates: Sequence[SearchCandidate]
    nearness: Mapping[str, Nearness]
    empty_ids: Set[str]
    word_trust: float
    fluency: float
    answer_likelihood: float

    @classmethod
    def from_row(
        cls,
        row: Mapping[str, Any],
        question: str,
        asked: ParsedQuestion,
        embedded: QuestionEmbedding | None,
        fluency: float,
    ) -> Ranking:
        """Of the row that a statement ``legs_…`` returns."""
        candidates = [SearchCandidate(*one) for one in row["candidates"]]
        empty = smalltalk.find_empty_turns(candidates, question)
        texts = [text for text in row["texts"] if text not in empty.values()]
        background = ScoreBaseline.from_scores(row["usual"])
        scores = [one.vector_score for one in candidates if one.vector_score is not None and one.id not in empty]
        nearest = background.normalize_score(max(scores)) if scores and background else None
        # A message's vector is that of its ending alone: its words are trusted.
        gate = 1.0 if asked.is_message else measure_word_trust(asked.terms, texts, asked.stop_word_language)
        return cls(
            asked,
            candidates,
            measure_nearness(candidates, background, embedded.tokens if embedded else None),
            frozenset(empty),
            word_trust=gate,
            fluency=fluency,
            answer_likelihood=estimate_answer_likelihood(
                nearest, asked.asking_terms, texts, asked.stop_word_language, fluency
            ),
        )

    def rank_candidates(self, weights: Weights, now: float) -> list[ScoredMemory]:
        """The memories, each once, best first; what held until ``now`` or longer holds."""
        chosen = weights.scale_vectors(self.fluency)
        found = score_candidates(
            self.candidates,
            self.parsed_question,
            chosen,
            near=self.nearness,
            gate=self.word_trust,
            now=now,
            empty=self.empty_ids,
        )
        return deduplicate_memories(found, {one.id: one for one in self.candidates}, weights.brief)

    def limit_characters(self, found: Sequence[ScoredMemory], characters: int) -> list[ScoredMemory]:
        """The first of the memories that have so many characters together; of a longer one a tenth of them counts.

        What may say the same as another, for somebody said as many characters, counts once.
        """
        by_id = {one.id: one for one in self.candidates}
        kept, told, spent = list[ScoredMemory](), set[tuple[str | None, int]](), 0
        for one in found:
            if spent >= characters:
                break
            kept.append(one)
            said = by_id[one.id].author, by_id[one.id].text_length
            if said not in told:
                told.add(said)
                spent += min(by_id[one.id].text_length, characters // 10)
        return kept
