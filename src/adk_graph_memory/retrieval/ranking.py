"""Rank the candidates of a search: score each, merge duplicates, and estimate how likely any of them answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any

from adk_graph_memory.graph import lucene
from adk_graph_memory.models.projection import QuestionTokens
from adk_graph_memory.models.tokens import QuestionEmbedding
from adk_graph_memory.retrieval import smalltalk
from adk_graph_memory.retrieval.candidates import (
    BASELINE_SAMPLE_SIZE,
    SUFFICIENT_SAMPLE,
    Nearness,
    ScoreBaseline,
    SearchCandidate,
    measure_nearness,
)
from adk_graph_memory.retrieval.coverage import (
    DOUBTFUL_LIKELIHOOD,
    MIN_FLUENCY,
    MIN_SCORE,
    MIN_SCORE_BY_WORDS,
    estimate_answer_likelihood,
    has_unheard_name,
    measure_word_trust,
)
from adk_graph_memory.retrieval.question import ParsedQuestion
from adk_graph_memory.retrieval.scoring import ScoredMemory, deduplicate_memories, score_candidates
from adk_graph_memory.retrieval.weights import Weights

SCORE_DECAY = 8.0
"""Deviations below the best memory at which a score is e times smaller."""


def scale_scores(memories: Sequence[ScoredMemory], answer_likelihood: float) -> list[dict[str, Any]]:
    """Scale scores to 0 to 1, where the best is ``answer_likelihood``; return the second statement's rows of them."""
    best_score = memories[0].score if memories else 0.0
    return [
        {
            "id": memory.id,
            "fact": memory.fact_id,
            "score": answer_likelihood * math.exp((memory.score - best_score) / SCORE_DECAY),
        }
        for memory in memories
    ]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates and everything their scores depend on, except the weights.

    ``answer_likelihood`` is how likely anything answers the question at all, 0 to 1; memories whose score is below
    ``min_score`` hardly ever do, if the vectors are the default model's. It is 0 while there are too few memories to
    tell what is usual. ``is_doubtful``, judged likewise, if none of them may.
    """

    parsed_question: ParsedQuestion
    candidates: Sequence[SearchCandidate]
    nearness: Mapping[str, Nearness]
    empty_ids: Set[str]
    word_trust: float
    fluency: float
    answer_likelihood: float
    min_score: float
    is_doubtful: bool
    tokens: QuestionTokens | None = None

    @classmethod
    def from_row(
        cls,
        row: Mapping[str, Any],
        query: str,
        question: ParsedQuestion,
        embedding: QuestionEmbedding | None,
        fluency: float,
    ) -> Ranking:
        """Make a ranking from the row of a statement ``candidates_…``.

        Facts that a model worded, in the third person, are compared with the question as it was typed; what people
        said, and what rules read in it, with the question in the first person.
        """
        candidates = [SearchCandidate(*columns) for columns in row["candidates"]]
        empty_turns = smalltalk.find_empty_turns(candidates, query)
        texts = [text for text in row["texts"] if text not in empty_turns.values()]
        terms, asking_terms = question.terms, question.asking_terms
        if question.identifiers:
            texts = [question.identifiers.unify_spellings(text) for text in texts]
            unified = question.identifiers.unify_spellings(question.search_text)
            terms = asking_terms = lucene.extract_terms(unified, question.stop_word_language)
        nearness, scores = dict[str, Nearness](), list[float]()
        for is_model_worded in (False, True):  # each on a scale of its own
            some = [candidate for candidate in candidates if candidate.is_model_worded == is_model_worded]
            usual = [score for is_model, score in row["usual"] if is_model == is_model_worded]
            baseline = ScoreBaseline.from_scores(usual[:BASELINE_SAMPLE_SIZE])
            asked = embedding.typed or embedding if embedding and is_model_worded else embedding
            nearness |= measure_nearness(some, baseline, asked.tokens if asked else None)
            scores += [
                baseline.normalize_score(candidate.vector_score)
                for candidate in some
                if baseline and candidate.vector_score is not None and candidate.id not in empty_turns
            ]
        language = question.stop_word_language
        date_words = question.list_date_words(candidates)
        is_fluent, is_calibrated = fluency >= MIN_FLUENCY, len(row["usual"]) >= SUFFICIENT_SAMPLE
        min_score, doubtful = (MIN_SCORE, DOUBTFUL_LIKELIHOOD) if is_fluent else (MIN_SCORE_BY_WORDS,) * 2
        likelihood = estimate_answer_likelihood(
            max(scores, default=None), asking_terms, texts, language, fluency, date_words
        )
        heard = chain(
            row["texts"],
            (span.words for span in question.time_spans),
            (text or "" for candidate in candidates for text in (candidate.short_text, candidate.author)),
        )
        # A message's vector covers only its end, so its words are trusted.
        word_trust = 1.0 if question.is_message else measure_word_trust(terms, [*texts, *date_words], language)
        return cls(
            question,
            candidates,
            nearness,
            frozenset(empty_turns),
            word_trust=word_trust,
            fluency=fluency,
            answer_likelihood=likelihood,
            min_score=min_score if is_calibrated else 0.0,
            is_doubtful=is_calibrated
            and not question.is_message  # it names what is new, and asks little
            and (likelihood < doubtful or (is_fluent and question.language == "en" and has_unheard_name(query, heard))),
            tokens=embedding.tokens if embedding else None,
        )

    def rank_candidates(self, weights: Weights, now: float) -> list[ScoredMemory]:
        """Return the memories, each once, best first; a fact that ends at ``now`` or later still holds."""
        memories = score_candidates(
            self.candidates,
            self.parsed_question,
            weights.scale_vectors(self.fluency),
            nearness=self.nearness,
            word_trust=self.word_trust,
            now=now,
            empty_ids=self.empty_ids,
            tokens=self.tokens,
        )
        return deduplicate_memories(memories, {candidate.id: candidate for candidate in self.candidates}, weights.brief)

    def limit_characters(self, memories: Sequence[ScoredMemory], characters: int) -> list[ScoredMemory]:
        """Return the first memories that together have this many characters; of each, at most a tenth of them counts.

        Memories of the same author and length count once, because they may say the same.
        """
        candidates = {candidate.id: candidate for candidate in self.candidates}
        first_memories, texts, total = list[ScoredMemory](), set[tuple[str | None, int]](), 0
        for memory in memories:
            if total >= characters:
                break
            first_memories.append(memory)
            candidate = candidates[memory.id]
            text = candidate.author, candidate.text_length
            if text not in texts:
                texts.add(text)
                total += min(candidate.text_length, characters // 10)
        return first_memories
