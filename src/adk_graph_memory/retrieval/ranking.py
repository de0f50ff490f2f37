"""What the first statement of a search has found goes in; the memories that answer come out, best first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from adk_graph_memory.embeddings import EmbeddedQuestion
from adk_graph_memory.retrieval import smalltalk
from adk_graph_memory.retrieval.candidates import Background, Candidate
from adk_graph_memory.retrieval.coverage import likelihood, trust
from adk_graph_memory.retrieval.nearness import Near, nearness
from adk_graph_memory.retrieval.question import Asked
from adk_graph_memory.retrieval.scoring import Scored, distinct, scored
from adk_graph_memory.retrieval.weights import Weights

FADING = 8.0
"""Deviations behind the best memory after which a score is e times smaller."""


def hits_of(found: Sequence[Scored], support: float) -> list[dict[str, Any]]:
    """What the second statement takes: ids, and scores between 0 and 1, the best one as likely as anything answers."""
    best = found[0].score if found else 0.0
    return [{"id": one.id, "fact": one.fact, "score": support * math.exp((one.score - best) / FADING)} for one in found]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates and all that is told of them, whatever weights they are ranked by.

    ``support`` is how likely anything answers the question at all, 0 to 1.
    """

    asked: Asked
    candidates: Sequence[Candidate]
    near: Mapping[str, Near]
    empty: Set[str]
    gate: float
    fluency: float
    support: float

    @classmethod
    def of_row(
        cls,
        row: Mapping[str, Any],
        question: str,
        asked: Asked,
        embedded: EmbeddedQuestion | None,
        fluency: float,
    ) -> Ranking:
        """Of the row that a statement ``legs_…`` returns."""
        candidates = [Candidate(*one) for one in row["candidates"]]
        empty = smalltalk.empty(candidates, question)
        texts = [text for text in row["texts"] if text not in empty.values()]
        background = Background.of(row["usual"])
        scores = [one.vector for one in candidates if one.vector is not None and one.id not in empty]
        nearest = background.nearness(max(scores)) if scores and background else None
        # A message's vector is that of its ending alone: its words are trusted.
        gate = 1.0 if asked.is_message else trust(asked.terms, texts, asked.ordinary_in)
        return cls(
            asked,
            candidates,
            nearness(candidates, background, embedded.tokens if embedded else None),
            frozenset(empty),
            gate=gate,
            fluency=fluency,
            support=likelihood(nearest, asked.asking_terms, texts, asked.ordinary_in, fluency),
        )

    def rank(self, weights: Weights, now: float) -> list[Scored]:
        """The memories, each once, best first; what held until ``now`` or longer holds."""
        chosen = weights.trusting(self.fluency)
        found = scored(self.candidates, self.asked, chosen, near=self.near, gate=self.gate, now=now, empty=self.empty)
        return distinct(found, {one.id: one for one in self.candidates}, weights.brief)

    def fill(self, found: Sequence[Scored], characters: int) -> list[Scored]:
        """The first of the memories that have so many characters together; of a longer one a tenth of them counts.

        What may say the same as another, for somebody said as many characters, counts once.
        """
        by_id = {one.id: one for one in self.candidates}
        kept, told, spent = list[Scored](), set[tuple[str | None, int]](), 0
        for one in found:
            if spent >= characters:
                break
            kept.append(one)
            said = by_id[one.id].author, by_id[one.id].size
            if said not in told:
                told.add(said)
                spent += min(by_id[one.id].size, characters // 10)
        return kept
