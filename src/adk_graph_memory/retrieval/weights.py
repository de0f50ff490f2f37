"""What each signal counts: the one place where reading is tuned."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from adk_graph_memory import errors

TEXT_ONLY_FACTOR = 2.4
"""How much more words count where there are no vectors beside them."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What each signal adds to a memory's score, in deviations.

    Behind each, what it earned: points of recall in the first ten / of nDCG that LoCoMo's development half loses
    without it (``python -m benchmarks.quality.folds --locomo PATH``). A fifth of a point is one or two answers of 760.
    """

    text: float = 0.25
    """how many of the question's words it has, and how rare they are (+0.5 / +1.0)"""
    vector: float = 0.5
    """how near its vector is to the question's (+2.7 / +4.6)"""
    tokens: float = 0.7
    """the share of that which tokens have where they are known, each of the question's by itself (+1.9 / +3.9)"""
    fact: float = 0.35
    """how near the best of the facts is that rest on a turn (+0.7 / +0.9)"""
    named: float = 0.5
    """a fact about somebody or something that the question names (0.0 / 0.0; rules read no such facts)"""
    brief: float = 2.0
    """how much better a turn has to be than a fact that says it in fewer words, to keep its place: a half of this
    where the fact has half as many (0.0 / 0.0; within 1,024 tokens +2.1)"""
    author: float = 2.5
    """what the one whom the question asks about said themselves (+2.3 / +3.4)"""
    agent: float = -1.0
    """what an agent said, beside what the people it serves said themselves; not where a question asks about somebody
    else, of whom either may speak (0.0 / 0.0; no agent speaks there; of chats +1.7 / +1.9)"""
    answer: float = 0.45
    """of a question's score, to the turn that follows it: the answer need not share a word with what is asked
    (+1.2 / +3.2)"""
    before: float = 0.15
    """of a turn's score, to the one before it; a third of it to the one before that (+0.2 / +0.6)"""
    session: float = 0.4
    """how well the rest of the session fits (+0.8 / +1.2)"""
    date: float = 3.0
    """what was said, or was so, at the time that the question names (+1.3 / +1.9)"""
    asks: float = -0.5
    """a short turn that asks says little (+0.5 / +0.3)"""
    recent: float = 2.0
    """the latest of a few that fit alike, where the question asks what is so now
    (+0.2 / −0.8; of what changed, 13 in a hundred answers more stand before what they replaced)"""
    ended: float = -2.0
    """words that said what is no longer so, unless the question is about the past (0.0 / 0.0; for what changed)"""
    others: float = -3.0
    """a short turn that says of somebody else's what is asked of the asker's own
    ("my sister's wedding"; for what changed)"""
    successor: float = 0.6
    """of its own score, to what took the place of something that ended, beyond that place
    (0.0 / 0.0; for what changed)"""
    manner: float = -1.5
    """words that are not plainly their speaker's own: pasted, quoted, joking, hypothetical (0.0 / 0.0; none there)"""

    def scale_vectors(self, vectors: float) -> Weights:
        """With vectors counting so much of what they count otherwise, and words the more for it."""
        if vectors == 1.0:
            return self
        text = self.text * (vectors + (1.0 - vectors) * TEXT_ONLY_FACTOR)
        return replace(self, text=text, vector=vectors * self.vector, fact=vectors * self.fact)

    def __post_init__(self) -> None:
        for field in fields(self):
            weight = getattr(self, field.name)
            if not isinstance(weight, int | float) or not math.isfinite(weight):
                raise errors.ConfigurationError(reason=f"the weight {field.name}={weight!r} is no number")
