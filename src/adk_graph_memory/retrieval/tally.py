"""Candidates go in; what each signal adds to each of them comes out, whoever else was found.

All is counted in deviations: how much nearer to the question a memory is than this user's memories are as a rule.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Mapping, Set

from adk_graph_memory.records import Share
from adk_graph_memory.retrieval.candidates import Candidate
from adk_graph_memory.retrieval.nearness import Near
from adk_graph_memory.retrieval.question import Asked
from adk_graph_memory.retrieval.weights import Weights

_AS_GOOD = 3.0
_BEST = 20
"""Deviations that the mean of so many best scores by text counts as: Lucene's have no scale of their own."""
_MOST = 8.0
"""Deviations that the best match by text may count as: a single rare word does not decide alone."""
_SHORT, _VERY_SHORT = 480, 170
"""Characters (about 80 and 30 words) up to which a turn lends to its neighbours, and a question says little."""
_HALF = 4.0
"""Lucene's score of a name that counts as one half."""
_ALIKE, _ABOUT_AS_WELL = 6, 0.5
"""How many of the best turns may be about the same thing, and the share of the best one's own score that tells so."""
_JUST = 0.01
"""What puts a fact before the turn that it stands for."""
_AS_NEAR = 0.75
"""Share of the best fact's own score from which what ended of a turn may be what is asked."""


class Tally:
    """The shares of every candidate so far."""

    def __init__(
        self, found: Mapping[str, Candidate], weights: Weights, gate: float, empty: Set[str] = frozenset()
    ) -> None:
        self._found, self._weights, self._gate, self._empty = found, weights, gate, empty
        self._telling = {id: one for id, one in found.items() if id not in empty}
        self._shares: dict[str, dict[str, float]] = {id: {} for id in found}
        self._through: dict[str, dict[str, str]] = defaultdict(dict)
        self._total = dict.fromkeys(found, 0.0)
        self._own: dict[str, float] = {}
        self._alike: frozenset[str] = frozenset()
        self._gone: set[str] = set()
        self._facts: dict[str, list[str]] = defaultdict(list)
        for one in found.values():
            for source in one.sources:
                self._facts[source].append(one.id)

    def _add(self, id: str, signal: str, amount: float, through: str | None = None) -> None:
        if amount and (shares := self._shares.get(id)) is not None:
            shares[signal] = shares.get(signal, 0.0) + amount
            self._total[id] += amount
            if through is not None:
                self._through[signal].setdefault(id, through)

    def match(self, nearness: Mapping[str, Near]) -> None:
        """What a memory's own words, vector and tokens say, and of a turn what its facts' do."""
        weights, found = self._weights, self._found
        by_text = sorted((one.text for one in self._telling.values() if one.text is not None), reverse=True)
        scale = sum(by_text[:_BEST]) / max(1, min(_BEST, len(by_text))) / _AS_GOOD or 1.0
        near = {id: one.mean(weights.tokens) for id, one in nearness.items()}
        for id, one in found.items():
            shares = self._shares[id]
            if one.text is not None:
                shares["text"] = self._gate * weights.text * _MOST * math.tanh(one.text / scale / _MOST)
            if id in near:
                by_tokens = (
                    weights.tokens * (nearness[id].tokens or 0.0) if nearness[id].vector is not None else near[id]
                )
                shares["tokens"] = weights.vector * by_tokens
                shares["vector"] = weights.vector * (near[id] - by_tokens)
            if one.entity is not None:
                shares["named"] = self._gate * weights.named * one.entity / (one.entity + _HALF)
            if facts := [fact for fact in self._facts.get(id, ()) if fact in near]:
                best = max(facts, key=lambda fact: (near[fact], fact))
                shares["fact"] = weights.fact * near[best]
                self._through["fact"][id] = best
            self._total[id] = sum(shares.values())
        self._own = {id: max(0.0, total) for id, total in self._total.items()}

    def pass_on(self) -> None:
        """What a turn lends to its neighbours; in long ones too much else is said."""
        weights, found, own = self._weights, self._found, self._own
        for id, one in found.items():
            later = found.get(one.follower or "")
            if later is None or one.size > _SHORT or later.size > _SHORT:
                continue
            if one.asks:
                self._add(later.id, "answer", self._gate * weights.answer * own[id], id)
            third = found.get(later.follower or "")
            for after, share in ((later, 1.0), (third, 1 / 3)):
                if after is not None and after.size <= _SHORT and after.id not in self._empty:
                    self._add(id, "before", self._gate * weights.before * share * own[after.id], after.id)

    def weigh(self, one: Candidate, asked: Asked) -> None:
        """What a turn's author, time and form say."""
        weights, gate = self._weights, self._gate
        if asked.author is not None:
            self._add(one.id, "author", weights.author * (one.author == asked.author))
        elif one.role == "model" and not asked.of_agent:
            self._add(one.id, "agent", weights.agent)
        if asked.times:
            self._add(one.id, "date", gate * weights.date * asked.fits(one.timestamp))
        if one.words is not None and asked.is_of_others(one.words):
            self._add(one.id, "others", gate * weights.others)
        if one.manner is not None:
            self._add(one.id, "manner", weights.manner)
        if one.ends_asking and one.size <= _VERY_SHORT:
            self._add(one.id, "asks", gate * weights.asks)

    def date(self, fact: Candidate, asked: Asked) -> None:
        """What is no longer so answers a question about the time when it was."""
        if fact.state == "superseded" and asked.held(fact.valid_from, fact.valid_to):
            self._add(fact.id, "date", self._gate * self._weights.date)

    def fit_sessions(self) -> None:
        """How well a turn's session fits: its best turn, beside those of all sessions that were found."""
        best: dict[str, float] = defaultdict(float)
        for id, one in self._telling.items():
            if one.kind == "event" and one.session_id is not None:
                best[one.session_id] = max(best[one.session_id], self._own[id])
        if len(best) < 2:
            return
        mean = sum(best.values()) / len(best)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in best.values()) / len(best)) or 1.0
        for id, one in self._telling.items():
            if one.kind == "event" and one.session_id is not None and one.size <= _SHORT:
                fit = (best[one.session_id] - mean) / deviation
                self._add(id, "session", self._gate * self._weights.session * fit)

    def prefer_recent(self) -> None:
        """Of the few turns that fit about as well as the best, the later one is likelier to hold still."""
        turns = [id for id, one in self._telling.items() if one.kind == "event"]
        best = heapq.nlargest(_ALIKE, turns, key=lambda id: (self._own[id], self._found[id].timestamp, id))
        alike = [id for id in best if self._own[id] >= _ABOUT_AS_WELL * self._own[best[0]]]
        self._alike = frozenset(alike)
        times = sorted(self._found[id].timestamp for id in alike)
        for id in alike if len(alike) > 1 else ():
            later_than = times.index(self._found[id].timestamp) / (len(times) - 1)
            self._add(id, "recent", self._weights.recent * later_than)

    def rest_facts_on_turns(self) -> None:
        """A fact stands where its best turn does, nearer or farther by its own words."""
        by_words = {"text", "vector", "tokens", "fact"}
        for id, one in self._found.items():
            turns = [source for source in one.sources if source in self._found]
            if one.kind == "fact" and turns:
                best = max(turns, key=lambda turn: (self._total[turn], turn)) if len(turns) > 1 else turns[0]
                for signal, amount in self._shares[best].items():
                    if signal not in by_words:
                        self._add(id, signal, amount, best)

    def end(self, now: float, *, is_past: bool, is_present: bool = False) -> None:
        """What is no longer so gives its place to what is; the words that said it stand behind, unless that is asked.

        What took the place of a turn is later than it, which counts where the latest is asked for.
        Of a turn that says several things, what is nearest to the question counts. If that holds, it stands for the
        turn. What was never true is over whatever is asked.
        """
        retracted = {id for id, one in self._found.items() if one.state == "retracted"}
        over = retracted if is_past else {id for id, one in self._found.items() if _is_over(one, now)}
        turns = {source for id in over for source in self._found[id].sources if source in self._total}
        nearest = {turn: max(self._facts[turn], key=lambda id: (self._own[id], id)) for turn in turns}
        ended = {turn for turn in turns if self._is_ended(turn, over)}
        for id in sorted(over):
            told = [turn for turn in ended.intersection(self._found[id].sources) if self._is_nearest(id, turn, over)]
            place = max([self._total[id], *(self._total[turn] + is_present * self._lateness(turn) for turn in told)])
            for later in (set(self._found[id].ended_by or ()) & self._total.keys()) - over:
                with_own = place + self._weights.successor * self._own[later]
                self._add(later, "replaces", max(0.0, with_own - self._total[later]), id)
        for turn in sorted(turns):
            fact = nearest[turn]
            if turn in ended:
                self._add(turn, "ended", self._weights.ended, fact)
            elif fact not in over:
                self._add(fact, "holds", max(0.0, self._total[turn] + _JUST - self._total[fact]), turn)
        self._gone.update(over)

    def _is_nearest(self, fact: str, turn: str, over: Set[str]) -> bool:
        """Whether of what ended of a turn nothing is nearer to the question: its successor takes the turn's place."""
        return self._own[fact] >= max(self._own[other] for other in self._facts[turn] if other in over)

    def _lateness(self, turn: str) -> float:
        """What a turn that fits about as well as the best would have beyond its own score if it were the latest."""
        return (turn in self._alike) * max(0.0, self._weights.recent - self._shares[turn].get("recent", 0.0))

    def _is_ended(self, turn: str, over: Set[str]) -> bool:
        """Whether nothing holds of what a turn says, or not of what it says to the question."""
        facts = self._facts[turn]
        ended = [fact for fact in facts if fact in over]
        nearest = max(self._own[fact] for fact in ended)
        is_asked = nearest >= _AS_NEAR * max(self._own[fact] for fact in facts) and nearest > 0.0
        return is_asked or len(ended) >= self._found[turn].facts

    def ranked(self) -> list[tuple[str, float]]:
        """Ids and scores of what still holds, best first."""
        return sorted(
            ((id, score) for id, score in self._total.items() if id not in self._gone and id not in self._empty),
            key=lambda one: (-one[1], one[0]),
        )

    def shares_of(self, id: str) -> tuple[Share, ...]:
        """What a candidate's score is made of, the greatest first."""
        shares = [
            Share(signal, amount, self._through[signal].get(id))
            for signal, amount in self._shares[id].items()
            if amount
        ]
        return tuple(sorted(shares, key=lambda share: -abs(share.amount)))


def _is_over(one: Candidate, now: float) -> bool:
    """Whether it was taken back, or another took its place; one that ended at its own time still tells what was."""
    return one.state == "retracted" or (one.state == "superseded" and (one.valid_to is None or one.valid_to <= now))
