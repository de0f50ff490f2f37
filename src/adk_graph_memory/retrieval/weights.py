"""The weights of the signals in a memory's score: the one place to tune retrieval."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from adk_graph_memory import errors

TEXT_ONLY_FACTOR = 2.4
"""How much more words count without vectors."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each signal in a memory's score, in deviations.

    The numbers in parentheses are what LoCoMo's development half loses without the signal, in points of recall at ten
    and of nDCG (``python -m benchmarks.quality.folds --locomo PATH``). A fifth of a point is one or two answers of 760.
    """

    text: float = 0.25
    """how many of the question's words it has, and how rare they are (+0.5 / +1.0)"""
    vector: float = 0.5
    """how near its vector is to the question's (+2.7 / +4.6)"""
    tokens: float = 0.7
    """the share of ``vector`` that goes to token vectors, if there are any; each of the question's tokens counts by
    itself (+1.9 / +3.9)"""
    fact: float = 0.35
    """for a turn: how near the best of its facts is (+0.7 / +0.9)"""
    entity: float = 0.5
    """for a fact: about an entity that the question names (0.0 / 0.0; rules extract no such facts)"""
    brief: float = 2.0
    """how much better a turn has to be than a fact that says the same in fewer words, to keep its rank: half of this if
    the fact has half as many words (0.0 / 0.0; within 1,024 tokens +2.1)"""
    author: float = 2.5
    """said by the person the question asks about (+2.3 / +3.4)"""
    agent: float = -1.0
    """said by an agent rather than by the people it serves; does not apply to a question about somebody else, whom
    either may speak about (0.0 / 0.0, for no agent speaks there; in chats +1.7 / +1.9)"""
    answer: float = 0.45
    """share of a question's score for the turn after it: an answer need not share a word with its question
    (+1.2 / +3.2)"""
    before: float = 0.15
    """share of a turn's score for the turn before it, and a third of it for the one before that (+0.2 / +0.6)"""
    session: float = 0.4
    """how well the rest of the session fits (+0.8 / +1.2)"""
    date: float = 3.0
    """said, or true, at the time that the question names (+1.3 / +1.9)"""
    question: float = -0.5
    """a short turn that ends with a question says little (+0.5 / +0.3)"""
    recent: float = 2.0
    """the latest of a few that fit equally well, if the question asks what is true now (+0.2 / −0.8; in the benchmark
    of changes, 13 more answers in a hundred rank before what they replaced)"""
    ending: float = -2.0
    """words that no longer hold, unless the question is about the past (0.0 / 0.0; for changes)"""
    others: float = -3.0
    """a short turn about somebody else's, if the question is about one's own ("my sister's wedding"; for changes)"""
    successor: float = 0.6
    """share of its own score that the successor of an ended fact gets on top of that fact's (0.0 / 0.0; for changes)"""
    manner: float = -1.5
    """words not plainly the speaker's own: pasted, quoted, joking, hypothetical (0.0 / 0.0; none there)"""

    def scale_vectors(self, share: float) -> Weights:
        """Return weights in which vectors count only this share, and words correspondingly more."""
        if share == 1.0:
            return self
        text = self.text * (share + (1.0 - share) * TEXT_ONLY_FACTOR)
        return replace(self, text=text, vector=share * self.vector, fact=share * self.fact)

    def __post_init__(self) -> None:
        for field in fields(self):
            weight = getattr(self, field.name)
            if not isinstance(weight, int | float) or not math.isfinite(weight):
                raise errors.InvalidArgument(reason=f"the weight {field.name}={weight!r} is not a number")
